"""What follows runs while they are under way: loggers, and the page that shows them live."""
