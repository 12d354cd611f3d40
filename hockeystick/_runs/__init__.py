"""What commands do, without the command line around it."""
