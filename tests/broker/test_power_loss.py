"""A loss of power takes nothing back that was synced, wherever the data folder lies."""

from kohort.storage.disk import Disk
from kohort.storage.partition_log import PartitionLog
from tests.broker.broker_box import BrokerBox
from tests.simulation.disk import SimulatedDisk


def test_the_folders_above_the_first_log_survive() -> None:
    for seed in range(20):
        disk = SimulatedDisk(seed)
        box = BrokerBox("srv/kohort/data", disk)
        box.topic("t", 1)
        box.append(b"kept")
        synced: list[object] = []
        box.broker.flusher.sync(log_of(box), synced.append)
        while not synced:
            box.run_posted()
        box.crash()
        after: Disk = disk.after_power_loss()
        again = BrokerBox("srv/kohort/data", after)
        assert [record.value for record in again.read_all()] == [b"kept"]
        again.close()


def log_of(box: BrokerBox) -> PartitionLog:
    partition = box.broker.catalog.partition("t", 0)
    assert partition is not None
    return partition.log
