"""What FedMD-CG and FedCG share: pairs of generator and classifier, and their distillation."""
