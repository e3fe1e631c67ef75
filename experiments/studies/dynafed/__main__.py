"""python -m experiments.studies.dynafed RUN ..."""

from experiments.studies.command import study_runs
from experiments.studies.dynafed import study

study_runs("dynafed", study.__doc__, study.report)
