"""Files and tables that users name: read, checked and written."""
