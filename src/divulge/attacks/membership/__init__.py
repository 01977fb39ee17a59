"""Who was in the training set."""

from divulge.attacks.membership.imported import ImportedMembership
from divulge.attacks.membership.margin import MarginMembership
from divulge.attacks.membership.rehearsal import MarginRehearsal
from divulge.attacks.membership.span import SpanMembership

__all__ = ["ImportedMembership", "MarginMembership", "MarginRehearsal", "SpanMembership"]
