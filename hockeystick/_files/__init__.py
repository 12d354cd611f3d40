"""Reading, checking and writing of files and tables that users name."""
