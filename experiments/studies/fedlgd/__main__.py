"""python -m experiments.studies.fedlgd RUN ..."""

from experiments.studies.fedlgd.study import main

main()
