"""Pure: from texts of files to what is wrong, and to other texts."""
