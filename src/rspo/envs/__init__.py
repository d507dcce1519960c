"""The environments: one file each, the contract in `base`, other libraries through `adapters`."""
