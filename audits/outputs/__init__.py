"""Numbers read from outputs of any type, for the attacks to choose from."""
