"""python -m experiments.studies.fedmd_cg features | runs RUN ..."""

from experiments.studies.fedmd_cg.study import app

app()
