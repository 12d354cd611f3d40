"""What an audit says, how it is printed, and what it says of a whole trade-off curve."""
