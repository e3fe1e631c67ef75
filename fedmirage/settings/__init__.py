"""How settings come in: flags, presets and files, and what was typed."""
