"""What a node decides by itself: where it keeps its files, what it insists on, what it tells."""
