"""python -m experiments.studies.fedlgd RUN ..."""

from experiments.studies.command import run_study
from experiments.studies.fedlgd.study import report

run_study(report)
