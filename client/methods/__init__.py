"""Client halves, one file a method that has one; the page of the same name is in
`common.methods`."""
