"""The table `circuits` in memory, as the use cases see it."""

from collections.abc import Iterable

import msgspec

from libs.common.kafka.table import CompactedTable
from libs.common.records import Circuit, decoder

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
