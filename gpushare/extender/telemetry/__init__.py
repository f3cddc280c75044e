"""What is counted (``metrics``), the series of it and of the book (``exposition``), and their text (``scrape``)."""
