"""Draws t-SNE maps of the features that finished runs compute.

VHL's figures 2 and 8 to 13, and with --domains FedLGD's figure 4:

    python -m experiments.studies.tsne runs/fedavg runs/naive runs/vhl --out tsne.png
    python -m experiments.studies.tsne runs/fedavg runs/without runs/fedlgd --domains --out tsne.png
"""
