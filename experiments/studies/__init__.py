"""Studies of single methods: metrics and pictures from the folders of their runs."""
