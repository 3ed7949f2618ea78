"""Files that sessions find in their directory. $NS is the test's namespace, and the name of what has none."""

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train, labels: {app: train, team: vision}}
spec:
  schedulerName: nobody
  nodeName: $NS
  containers:
  - name: main
    image: cuda:12
    command: [sleep, infinity]
    resources: {limits: {nvidia.com/gpu: 1}}
"""
PENDING = """\
apiVersion: v1
kind: Pod
metadata: {name: waits, labels: {app: waits}}
spec:
  schedulerName: nobody
  containers: [{name: main, image: "cuda:12"}]
"""
RUNNING = """\
status:
  phase: Running
  podIP: 10.1.2.3
  startTime: "2026-01-01T00:00:00Z"
  conditions: [{type: Ready, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]
  containerStatuses:
  - {name: main, image: "cuda:12", imageID: "", ready: true, restartCount: 0, started: true,
     state: {running: {startedAt: "2026-01-01T00:00:00Z"}}}
"""
NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: $NS
  labels: {kubernetes.io/hostname: $NS, tier: gpu, node-role.kubernetes.io/worker: ""}
spec: {unschedulable: false}
"""
NODE_STATUS = """\
status:
  capacity: {cpu: "8", memory: 16Gi, pods: "110", nvidia.com/gpu: "8"}
  allocatable: {cpu: "8", memory: 16Gi, pods: "110", nvidia.com/gpu: "7"}
  addresses: [{type: InternalIP, address: 10.1.2.3}, {type: Hostname, address: $NS}]
  conditions:
  - {type: Ready, status: "True", reason: KubeletReady, message: kubelet is posting ready status,
     lastHeartbeatTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
  nodeInfo: {architecture: amd64, bootID: b, containerRuntimeVersion: "containerd://2.2.1",
    kernelVersion: 5.15.0-1, kubeProxyVersion: "", kubeletVersion: v1.36.3, machineID: m,
    operatingSystem: linux, osImage: Ubuntu 22.04, systemUUID: u}
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1", ports: [{containerPort: 80}], env: [{name: A, value: "1"}]}
"""
DAEMON_SET = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, labels: {app: agent}}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {tier: none}
      containers: [{name: main, image: "agent:1"}]
"""
STATEFUL_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  replicas: 1
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      containers: [{name: main, image: "store:1"}]
"""
CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: red, size: "3"}
"""
POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: $NS}
spec: {driver: {enabled: false}, devicePlugin: {enabled: true}}
"""
GPU_NODE = """\
apiVersion: gpuready.dev/v1alpha1
kind: GPUNode
metadata: {name: $NS}
spec: {}
"""
# A definition of the test's own: its group is the namespace, so that sessions never meet.
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.$NS.example.dev}
spec:
  group: $NS.example.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, shortNames: [wd], categories: [things]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Label, type: string, jsonPath: .spec.label, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing with a size.
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How large it is.}
              label: {type: string, enum: [small, large], default: small}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, count: {type: integer}}
          status: {type: object, properties: {size: {type: integer}, phase: {type: string}}}
"""
WIDGET = """\
apiVersion: $NS.example.dev/v1
kind: Widget
metadata: {name: one}
spec: {size: 3}
"""
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {minAvailable: 1, selector: {matchLabels: {app: train}}}
"""
REVISION = """\
apiVersion: apps/v1
kind: ControllerRevision
metadata:
  name: agent-1
  labels: {app: agent}
  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: $UID, controller: true}]
revision: 1
data:
  spec:
    template:
      $patch: replace
      metadata: {labels: {app: agent}}
      spec: {containers: [{name: main, image: "agent:0"}]}
"""
EVENT = """\
apiVersion: v1
kind: Event
metadata: {name: train.1}
involvedObject: {apiVersion: v1, kind: Pod, name: train, namespace: $NS}
reason: GPUBroken
message: XID 79 on GPU 3
type: Warning
source: {component: gpuready}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
count: 1
"""

FILES = {
    "pod.yaml": POD,
    "pending.yaml": PENDING,
    "running.yaml": RUNNING,
    "node.yaml": NODE,
    "node-status.yaml": NODE_STATUS,
    "deployment.yaml": DEPLOYMENT,
    "daemonset.yaml": DAEMON_SET,
    "statefulset.yaml": STATEFUL_SET,
    "configmap.yaml": CONFIG_MAP,
    "policy.yaml": POLICY,
    "gpunode.yaml": GPU_NODE,
    "crd.yaml": DEFINITION,
    "widget.yaml": WIDGET,
    "budget.yaml": BUDGET,
    "event.yaml": EVENT,
}
