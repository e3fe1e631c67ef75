"""Tables with numbers, categories and missing values, as a schema describes them."""
