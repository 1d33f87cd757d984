"""Print the diagnostics of a policy on ROS 2, as `ros2 topic echo /diagnostics` does, until Ctrl-C.

export CYCLONEDDS_URI=file://$PWD/loopback.xml
python listen.py
"""

import queue
from contextlib import suppress

from sami_runtime import MonotonicClock
from sami_runtime.robots.ros2.messages import Diagnostics
from sami_runtime.robots.ros2.open_node import open_node
from sami_runtime.robots.ros2.settings import Qos

LEVELS = ("ok", "WARN", "ERROR")

if __name__ == "__main__":
    inbox: queue.SimpleQueue[Diagnostics] = queue.SimpleQueue()
    node = open_node("auto", None, MonotonicClock())
    node.subscribe("/diagnostics", Diagnostics, Qos(depth=10), lambda message, _: inbox.put(message))
    with suppress(KeyboardInterrupt):
        while True:
            for status in inbox.get().statuses:
                values = "; ".join(f"{key} {value}" for key, value in status.values.items())
                print(f"{LEVELS[status.level]:<6}{status.name}: {status.message} ({values})", flush=True)
    node.close()
