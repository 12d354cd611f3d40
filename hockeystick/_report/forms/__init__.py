"""Reports as HTML, as Markdown and for the terminal."""
