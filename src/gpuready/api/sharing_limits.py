"""What may be asked of sharing: one rule for the controller, which reads it, and the device plugin.

Apart from plugin_config.py because the plugin loads no schema on the node.
"""

from __future__ import annotations

MIN_REPLICAS = 2
MAX_REPLICAS = 3000
# The kubelet drops a plugin whose list is longer than 4 MiB, about 60,000 devices: 16 GPUs may be shared by
# this many and stay well below.

MPS_REFUSED = "sharing by MPS is not supported yet"
