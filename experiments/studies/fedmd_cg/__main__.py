"""python -m experiments.studies.fedmd_cg --out features.png"""

import typer

from experiments.studies.fedmd_cg.study import features

typer.run(features)
