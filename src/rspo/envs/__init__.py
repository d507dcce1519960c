"""The worlds: one file each, the contract in `base`, other libraries' environments through
`adapters`."""
