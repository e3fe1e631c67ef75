"""python -m experiments.studies.dynafed RUN ..."""

from experiments.studies.dynafed.study import main

main()
