TINY = "vhl(generator='gaussian', per_class=2, batch=4)"
