"""The tables `circuits` and `resources` in memory, as the use cases see them."""

from collections.abc import Iterable

import msgspec

from libs.common.kafka.table import CompactedTable
from libs.common.records import Circuit, decoder
from libs.common.resources import Catalog, Subscription

_decoder = decoder(Circuit)


def decode_circuit(key: str, value: bytes) -> Circuit:
    """For a `CompactedTable`; raises msgspec.DecodeError, also for a lane that is not the key."""
    circuit = _decoder.decode(value)
    if circuit.lane_id != key:
        raise msgspec.ValidationError(f"circuit does not belong to key {key}")
    return circuit


class TableCircuits:
    """The rows of the table `circuits`."""

    def __init__(self, table: CompactedTable[Circuit]) -> None:
        self._table = table

    def all(self) -> Iterable[Circuit]:
        """As the port says."""
        return self._table.rows.values()


class CatalogSubscriptions:
    """The subscriptions in the table `resources`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def get(self, subscription_id: str) -> Subscription | None:
        """As the port says."""
        return self._catalog.subscriptions.get(subscription_id)
