"""Studies of single methods: figures and pictures from the folders of their runs."""
