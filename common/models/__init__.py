"""The networks, each `features` then `classifier`: `params` lists them, `factory` builds one."""
