"""One module a file format. Each reads what it is pointed at; where to look is the business of
`common.data.files.sources`."""
