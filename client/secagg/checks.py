"""What a client requires of the clients of a round, of those that are left, and of their word."""

from flwr.common.secure_aggregation.secaggplus_constants import Key

from fedmirage.client.secagg.view import View, write_survivors
from fedmirage.common.errors import WireError
from fedmirage.common.secagg.agreement import AGREEMENT
from fedmirage.common.secagg.circle import CIRCLE, Circle
from fedmirage.common.secagg.keys import is_tag


class Checks(View):
    """The checks of one message; each raises a sentence to refuse."""

    def check_circle(self, circle: Circle) -> None:
        """Require that this client is in the round's circle under its own partition."""
        if len(circle.partitions) != self.request[Key.SAMPLE_NUMBER]:
            raise WireError("the server names another number of clients than it says")
        own = int(self.context.node_config.get("partition-id", -1))
        if circle.partitions.get(self.node) != own:
            raise WireError("the server names this client under another partition than its own")
        earlier = self.context.state.config_records.get(CIRCLE)
        if earlier is not None and earlier["token"] != circle.token:
            raise WireError("the server gives one run two tokens, as if its rounds were new")

    def check_survivors(self, survivors: set[int]) -> None:
        """Require a sum that hides every client in it, and that no other sum was opened before."""
        least = self.secagg.least(self.config.drawn)
        if len(survivors) < least:
            raise WireError(
                f"the server wants to open a sum of {len(survivors)} clients, and at least {least}"
                " are needed to hide one"
            )
        if self.node not in survivors or not survivors <= set(self.circle.partitions):
            raise WireError("the server wants to open a sum without this client, or of strangers")
        if len(survivors & self.neighbours) < self.plan.threshold:
            raise WireError("too few neighbours of this client are left to open the sum")
        if not self.circle.are_connected(survivors, self.plan.shares):
            raise WireError("the clients that are left have no masks in common")
        self.opened(self.circle).check(self.circle, survivors)

    def check_agreement(self, survivors: set[int]) -> None:
        """Require that enough neighbours say the same.

        If all clients are neighbours and nobody is lost, this client sends no share of a key, and
        what it sends opens only the sum of all; docs/security.md has the proof.
        """
        everybody = set(self.circle.partitions)
        if survivors == everybody == self.neighbours:
            return
        tags, left = self.read_tags(AGREEMENT), write_survivors(survivors)
        agreeing = {
            source
            for source in self.neighbours & survivors - {self.node}
            if is_tag(tags.get(source), self.tag_survivors(source, self.node, left))
        }
        if not self.agreed or len(agreeing) + 1 < self.plan.threshold:
            raise WireError(
                f"{len(agreeing) + 1} neighbours agree on which clients are left, and"
                f" {self.plan.threshold} must before this client opens a sum without the others"
            )
