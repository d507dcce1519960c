"""The methods: one file each, the contract in `base`, the kept policies in `references`."""
