"""A Slurm of one node on the loopback device, by Debian's `slurm-wlm`: up in a second, without accounting."""

import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

NEEDED = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
CONF = """\
ClusterName=tiny
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
FirstJobId=100
KillWait=30
MinJobAge=300
OverTimeLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes={host} Default=NO MaxTime=INFINITE State=UP PriorityTier=2
"""


@contextlib.contextmanager
def slurm_cluster():
    """Start a cluster, and stop it; what its commands need stands in this process's environment within."""
    missing = [name for name in NEEDED if shutil.which(name) is None and not Path("/usr/sbin", name).is_file()]
    if missing:
        pytest.skip(f"{missing[0]} is not installed (Debian: slurm-wlm)")
    folder = Path(tempfile.mkdtemp(prefix="slurm", dir="/tmp"))  # with a long path jobs never start
    for name in ("state", "spool"):
        (folder / name).mkdir()
    conf = folder / "slurm.conf"
    user = Path("~").expanduser().owner()
    conf.write_text(CONF.format(host=platform.node().split(".")[0], ports=_free_ports(2), user=user, folder=folder))
    before = dict(os.environ)
    os.environ["SLURM_CONF"] = str(conf)
    os.environ["PATH"] += f"{os.pathsep}/usr/sbin"
    daemons = []
    try:
        with (folder / "log.txt").open("w") as log:
            for command in (["slurmctld", "-D", "-i", "-f", conf], ["slurmd", "-D", "-f", conf]):
                daemons.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))
            deadline = time.monotonic() + 30.0
            while set(output_of("sinfo", "-h", "-o", "%t").split()) != {"idle"}:
                assert time.monotonic() < deadline, (folder / "log.txt").read_text()
                time.sleep(0.1)
            yield folder
            subprocess.run(["scancel", "--signal=KILL", f"--user={os.getuid()}"], check=False)
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10.0)
            daemon.kill()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def output_of(*command):
    """What one of Slurm's commands says; nothing where it fails."""
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False).stdout


def jobs(*states):
    """Numbers of the jobs that are in one of some states, or of all that are not over."""
    options = [f"--states={','.join(states)}"] if states else []
    return output_of("squeue", "-h", "-o", "%i", *options).split()


def _free_ports(count):
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
