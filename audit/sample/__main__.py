"""Makes the sample, audits it, and says where the report is.

python -m kohort.audit.sample [FOLDER]      default: ./kohort-audit
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from kohort.audit.cli.common import is_installed
from kohort.audit.sample.broker import BrokerProcess
from kohort.audit.sample.incidents import INCIDENTS, Sample, damage, run_all

COULD_NOT_RUN = 2
TABLES = "tables"


def make_sample(folder: Path) -> Path:
    """Make the incidents happen. Returns the data folder of the broker."""
    with BrokerProcess(folder) as broker:
        print(f"A broker on {broker.address}, and clients for:")
        for incident in INCIDENTS:
            print(f"  {(incident.__doc__ or '').strip()}")
        sample = Sample(broker.address)
        run_all(sample)
        sample.close()
    damage(broker.data)
    return broker.data


def clear(folder: Path) -> None:
    """Remove what an earlier sample has left, and nothing else: the folder may have other files of the user."""
    for name in ("data", TABLES):
        shutil.rmtree(folder / name, ignore_errors=True)


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "kohort-audit").absolute()
    if not is_installed():
        return COULD_NOT_RUN
    clear(folder)
    data = make_sample(folder)
    command = [str(Path(sys.executable).with_name("kohort")), "audit", str(data), "--out", str(folder / TABLES)]
    for setting in ("idle_members.seconds=0", "share_stall.minutes=0"):  # a minute is too long for a sample
        command += ["--set", setting]
    print("\n$", "kohort", *command[1:], flush=True)
    status = subprocess.run([*command, "--report", str(folder / "report.html")]).returncode
    return COULD_NOT_RUN if status == COULD_NOT_RUN else 0  # findings are expected here


if __name__ == "__main__":
    sys.exit(main())
