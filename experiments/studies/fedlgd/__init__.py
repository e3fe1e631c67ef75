"""Shows what FedLGD's distillation does to the distance between clients, and what it costs."""
