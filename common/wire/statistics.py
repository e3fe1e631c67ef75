"""What server and clients say to each other about the normalisation of a table.

Before the first round, the server asks every client for the sums of its columns. Whatever it then
sends to train, to evaluate or to prepare names the normalisation that follows from them.
"""

STATISTICS = "statistics"  # in a request: add up the columns; in the answer: the sums
NORMALISATION = "normalisation"  # in every later request: mean and deviation of all channels
