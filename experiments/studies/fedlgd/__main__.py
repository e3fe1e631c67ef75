"""python -m experiments.studies.fedlgd RUN ..."""

from experiments.studies.command import study_runs
from experiments.studies.fedlgd import study

study_runs("fedlgd", study.__doc__, study.report)
