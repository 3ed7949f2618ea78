"""The commands of `gpuready` with their options and help; each imports what it runs when it runs."""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import click

from gpuready import given_files, log, names
from gpuready.errors import GPUReadyError

FOUND_NOTHING, FOUND_SOMETHING, COULD_NOT_LOOK = 0, 1, 2


def run(arguments: Sequence[str]) -> int:
    """Run one command line; errors are printed as what, why, next step (a traceback needs --debug)."""
    from gpuready.tools.output import arriving

    try:
        with arriving():
            result = gpuready.main(args=list(arguments), prog_name="gpuready", standalone_mode=False)
    except click.ClickException as exc:
        with suppress(OSError):
            exc.show()
        return COULD_NOT_LOOK
    except click.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except GPUReadyError as exc:
        if "--debug" in arguments:
            raise
        with suppress(OSError):  # there is nowhere left to say it: the status stays
            _print_error(exc)
        return COULD_NOT_LOOK
    return int(result or 0)


def _print_error(exc: GPUReadyError) -> None:
    from gpuready.tools.terminal import printable

    click.echo(f"error: {printable(exc.what)}", err=True)
    if exc.why:
        click.echo(f"  why   {printable(exc.why)}", err=True)
    if exc.next_step:
        click.echo(f"  next  {printable(exc.next_step)}", err=True)


class Seconds(click.ParamType[float]):
    """A duration as Go programs take it (15s, 1m30s, 500ms), or a number of seconds."""

    name = "duration"
    _UNITS: ClassVar = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return self._told(float(value), value, param, ctx)
        except ValueError:
            pass
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", value)
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is no duration; write it like 15s, 1m30s or 500ms", param, ctx)
        return sum(float(number) * self._UNITS[unit] for number, unit in parts)

    def _told(
        self, seconds: float, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """float() takes nan, inf and what lies in the past, too."""
        if not 0 <= seconds < math.inf:
            self.fail(f"{value!r} is no duration; write it like 15s, 1m30s or 500ms", param, ctx)
        return seconds


class TextFile(click.File):
    """The text of a file; - is stdin."""

    def __init__(self, most_bytes: int = given_files.MOST_BYTES) -> None:
        super().__init__("r", encoding="utf-8")
        self._most_bytes = most_bytes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        self._refuse_stdin_twice(value, param, ctx)
        try:
            return given_files.read_or_say(value, "a text file", self._most_bytes).decode()
        except UnicodeDecodeError as exc:
            self.fail(f"{value!r} is not UTF-8 text: {exc.reason} at byte {exc.start}", param, ctx)

    def _refuse_stdin_twice(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> None:
        """The second to read it would find it empty."""
        if ctx is None or value != "-":
            return
        mine = param.opts[-1] if param else ""
        first = ctx.meta.setdefault("gpuready.stdin", mine)
        if first != mine:
            self.fail(f"{first} reads standard input already; give one of them as a file", param, ctx)


NODES_FILE = TextFile(given_files.MOST_BYTES_OF_A_CLUSTER)


class Commands(click.Group):
    """With groups of commands that are imported when one of them is asked for."""

    LATER: ClassVar = {"cdi": "gpuready.tools.cdi.options"}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.LATER])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.LATER:
            return super().get_command(ctx, cmd_name)
        found = getattr(importlib.import_module(self.LATER[cmd_name]), cmd_name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(names.VERSION, prog_name="gpuready")
@click.option("--debug", is_flag=True, help="Show tracebacks and debug logs.")
def gpuready(debug: bool) -> None:
    """From a bare GPU machine to a working nvidia.com/gpu, and why when it is not so.

    \b
    Look:    gpuready status          nodes x links of the chain
             gpuready doctor          the first broken link of each node, with the next step
             gpuready plan -f P       what would change if this policy were applied
             gpuready cdi             the node's CDI specs: list, check, resolve, generate
    Write:   gpuready crds            the CustomResourceDefinitions, for kubectl apply --server-side -f -
             gpuready rbac            the operator's account and rules, likewise
             gpuready render -f P     the objects that a policy leads to
             gpuready images -f P     the images that a mirror must hold
    Change:  gpuready uninstall       the policy goes, and everything of ours on the nodes
    Run:     gpuready operator | node-agent | device-plugin | toolkit | exporter   (in pods)
    """
    log.set_up(level="debug" if debug else None)


def _cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--context", help="Context of the kubeconfig to use."),
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False),
            help="Defaults to $KUBECONFIG, then ~/.kube/config, then the pod's own account.",
        ),
        click.option(
            "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
        ),
    ):
        command = option(command)
    return command


def _nodes(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    from gpuready.tools.completion import node_names

    return node_names(start, context.params.get("kubeconfig"), context.params.get("context"))


def _policies(context: click.Context, parameter: click.Parameter, start: str) -> list[str]:
    from gpuready.tools.completion import policy_names

    return policy_names(start, context.params.get("kubeconfig"), context.params.get("context"))


@gpuready.command(short_help="Every node and how far its chain is whole.")
@_cluster_options
@click.option("-w", "--watch", is_flag=True, help="Keep the table up to date until Ctrl-C.")
def status(kubeconfig: str | None, context: str | None, output: str, watch: bool) -> int:
    """Show every node and how far its chain is whole.

    \b
    Examples:
      gpuready status
      gpuready status --watch
      gpuready status -o json | jq '.nodes[] | select(.reason != "")'

    \b
    DRIVER, RUNTIME, PLUGIN and CUDA are the links driver, toolkit, device-plugin and cuda of
    `gpuready doctor`.
    """
    from gpuready.tools.status import command

    return command.run(kubeconfig=kubeconfig, context=context, output=output, watch=watch)


@gpuready.command(short_help="Why a GPU is not there, and why GPU pods wait.")
@_cluster_options
@click.option("--node", "node_name", shell_complete=_nodes, help="Look at this node only.")
@click.option("--bundle", type=click.Path(exists=True, dir_okay=False), help="Judge a saved bundle instead.")
@click.option("--save-bundle", type=click.Path(dir_okay=False), help="Also write what was seen to this file.")
def doctor(
    kubeconfig: str | None,
    context: str | None,
    output: str,
    node_name: str | None,
    bundle: str | None,
    save_bundle: str | None,
) -> int:
    """Say why a GPU is not there: the first broken link of each node, and why GPU pods wait.

    Exit status: 0 nothing found, 1 found something, 2 could not look.

    \b
    Examples:
      gpuready doctor
      gpuready doctor --node gpu-17
      gpuready doctor -o json
      gpuready doctor --save-bundle evidence.json; gpuready doctor --bundle evidence.json
    """
    from gpuready.tools.doctor import command

    return command.run(
        kubeconfig=kubeconfig,
        context=context,
        output=output,
        node=node_name,
        bundle=bundle,
        save_bundle=save_bundle,
    )


@gpuready.command(short_help="What would change if a policy were applied.")
@_cluster_options
@click.option("-f", "--file", "policy_file", type=TextFile(), required=True, help="The policy; - is stdin.")
@click.option("--nodes", "nodes_file", type=NODES_FILE, help="Plan for these nodes, without a cluster.")
@click.option(
    "--namespace", default=names.OPERATOR_NAMESPACE, show_default=True, help="Where the operator runs."
)
@click.option("--own-image", default="", help="The operator's own image; found in the cluster where it runs.")
def plan(
    kubeconfig: str | None,
    context: str | None,
    output: str,
    policy_file: str,
    nodes_file: str | None,
    namespace: str,
    own_image: str,
) -> int:
    """Say what would change if this policy were applied; nothing is written.

    Objects with their fields, node labels, pods that restart and where, workloads that this reaches, whose
    images run, and what of the policy has no effect. The file is taken as the whole policy.
    Exit status: 0 nothing would change, 1 something would, 2 could not look.

    \b
    Examples:
      gpuready plan -f policy.yaml
      gpuready plan -f policy.yaml -o json | jq '.pods.restarts, .workloads'
      kubectl get nodes -o yaml | gpuready plan -f policy.yaml --nodes -
    """
    from gpuready.tools.plan import command

    return command.run(
        policy_file,
        nodes_file,
        namespace=namespace,
        image=own_image,
        kubeconfig=kubeconfig,
        context=context,
        output=output,
    )


@gpuready.command(short_help="Print the CRDs; check or update a cluster's.")
@click.option("--apply", "apply_them", is_flag=True, help="Bring the cluster's to this version instead.")
@click.option("--field-manager", default=names.FIELD_MANAGER, show_default=True, help="For --apply.")
@click.option("--check", is_flag=True, help="Compare with the cluster's instead: does it know every field?")
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="For the cluster; as of `gpuready status`."
)
@click.option("--context", help="For the cluster: context of the kubeconfig to use.")
def crds(
    apply_them: bool, field_manager: str, check: bool, kubeconfig: str | None, context: str | None
) -> int:
    """Print the CustomResourceDefinitions, or check those of a cluster, or bring them to this version.

    Exit status of --check: 0 they know every field, 1 a CRD is older or missing, 2 could not look.

    \b
    Examples:
      gpuready crds | kubectl apply --server-side -f -
      gpuready crds --check
      gpuready crds --apply
    """
    if apply_them and check:
        raise click.UsageError("--check only looks, --apply writes; give one of them")
    if apply_them:
        from gpuready.tools.crds import apply

        return apply.run(kubeconfig=kubeconfig, context=context, field_manager=field_manager)
    if check:
        from gpuready.tools.crds.check import run

        return run(kubeconfig=kubeconfig, context=context)
    from gpuready.api import crd

    click.echo(crd.all_crds_yaml(), nl=False)
    return 0


@gpuready.command(short_help="Print the operator's account and its rules.")
@click.option(
    "--namespace", default=names.OPERATOR_NAMESPACE, show_default=True, help="Where the operator runs."
)
def rbac(namespace: str) -> int:
    """Print the operator's account and what it may do, in its namespace.

    \b
    Examples:
      gpuready rbac | kubectl apply --server-side -f -
      gpuready rbac --namespace my-gpus | kubectl apply --server-side -f -
    """
    from gpuready import yaml_text
    from gpuready.controller.rbac import operator_objects

    click.echo(yaml_text.dump_yaml_documents(operator_objects(namespace)), nl=False)
    return 0


@gpuready.command(short_help="Print the objects that a policy leads to.")
@click.option("-f", "--file", "policy_file", type=TextFile(), required=True, help="The policy; - is stdin.")
@click.option("--nodes", "nodes_file", type=NODES_FILE, help="A NodeList, as kubectl get nodes -o yaml.")
@click.option(
    "--namespace", default=names.OPERATOR_NAMESPACE, show_default=True, help="Where the operator runs."
)
@click.option("--own-image", default="", help="The operator's own image; as the chart's operator.repository.")
def render(policy_file: str, nodes_file: str | None, namespace: str, own_image: str) -> int:
    """Print the objects that a ClusterPolicy leads to, as YAML.

    \b
    Examples:
      gpuready render -f examples/clusterpolicy.yaml
      kubectl get nodes -o yaml | gpuready render -f policy.yaml --nodes - | kubectl diff -f -
    """
    from gpuready.tools.render import rendered

    result = rendered(policy_file, nodes_file or "", namespace, own_image)
    for remark in result.remarks:
        click.echo(f"# {remark}", err=True)
    click.echo(result.yaml, nl=False)
    return 0


@gpuready.command(short_help="List the images that a cluster pulls.")
@click.option("-f", "--file", "policy_file", type=TextFile(), required=True, help="The policy; - is stdin.")
@click.option("--nodes", "nodes_file", type=NODES_FILE, help="A NodeList, as kubectl get nodes -o yaml.")
@click.option("--own-image", default="", help="The operator's own image; as the chart's operator.repository.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "names", "pairs"]),
    default="table",
    show_default=True,
)
def images(policy_file: str, nodes_file: str | None, own_image: str, output: str) -> int:
    """List every image that a cluster pulls for a policy: what an air-gapped mirror must hold.

    Drivers come one for each operating system among the nodes, so give the nodes too. `-o names` prints a
    name a line; `-o pairs` where each comes from and where a cluster with spec.gpuready.registry looks.

    \b
    Examples:
      kubectl get nodes -o yaml | gpuready images -f policy.yaml --nodes -
      gpuready images -f policy.yaml --nodes nodes.yaml -o pairs | while read from to; do
        skopeo copy docker://$from docker://$to; done
    """
    from gpuready.tools.images import command

    return command.run(policy_file, nodes_file or "", own_image=own_image, output=output)


@gpuready.command(short_help="Remove the policy and clean every node.")
@click.argument("policy", default="", shell_complete=_policies)
@click.option(
    "--timeout", "timeout_s", type=Seconds(), default="240", show_default=True, help="Seconds to wait, or 5m."
)
@click.option("--crds", is_flag=True, help="Also delete the CRDs, and with them every object of theirs.")
@click.option("--if-there", is_flag=True, help="A name that no policy has is no mistake.")
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="As of `gpuready status`.")
@click.option("--context", help="Context of the kubeconfig to use.")
def uninstall(
    policy: str, timeout_s: float, crds: bool, if_there: bool, kubeconfig: str | None, context: str | None
) -> int:
    """Remove the ClusterPolicy and wait until the operator has cleaned every node.

    Run it while the operator still runs; what is left afterwards is the operator itself.
    Exit status: 0 nothing is left, 1 something is, 2 could not look.

    \b
    Examples:
      gpuready uninstall
      gpuready uninstall cluster-policy --timeout 600
    """
    from gpuready.tools import uninstall as tool

    return tool.run(
        policy,
        kubeconfig=kubeconfig,
        context=context,
        timeout_s=timeout_s,
        crds=crds,
        if_there=if_there,
        say=click.echo,
    )


@gpuready.command(short_help="Run the operator.")
@click.option(
    "--kubeconfig", type=click.Path(dir_okay=False), help="Outside a cluster; inside, leave it out."
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    envvar="GPUREADY_LEADER_ELECT",
    help="Work only while the Lease is ours. Default: yes in a pod, no beside a cluster.",
)
@click.option(
    "--leader-elect-lease-duration",
    "lease_s",
    type=Seconds(),
    envvar="GPUREADY_LEADER_ELECT_LEASE_DURATION",
    help="After this long without a renewal another may lead.  [default: 15s]",
)
@click.option(
    "--leader-elect-renew-deadline",
    "--leader-lease-renew-deadline",
    "renew_s",
    type=Seconds(),
    envvar="GPUREADY_LEADER_ELECT_RENEW_DEADLINE",
    help="After this long without a renewal the leader stops.  [default: 10s; 2/3 of the duration]",
)
@click.option(
    "--leader-elect-retry-period",
    "retry_s",
    type=Seconds(),
    envvar="GPUREADY_LEADER_ELECT_RETRY_PERIOD",
    help="Between two renewals.  [default: 2s; at most 1/5 of the deadline]",
)
def operator(
    kubeconfig: str | None,
    leader_elect: bool | None,
    lease_s: float | None,
    renew_s: float | None,
    retry_s: float | None,
) -> int:
    """Run the operator (in a pod, or beside a cluster with --kubeconfig).

    Of several operators one works: who holds the Lease 53822513.nvidia.com in its namespace, which is the
    original operator's too. The others are ready to take over.
    """
    from gpuready.controller import main as controller
    from gpuready.controller.election import elects_by_default
    from gpuready.kube.lease import Timing

    if leader_elect is None:
        leader_elect = elects_by_default(os.environ, kubeconfig)
    timing = Timing.of(lease_s, renew_s, retry_s)
    return controller.main(os.environ, kubeconfig, timing if leader_elect else None)


@gpuready.command("node-agent", short_help="Run the node agent.")
def node_agent() -> int:
    """Run the node agent; settings come from the environment."""
    from gpuready.operands.node_agent import daemon

    return daemon.main(os.environ)


@gpuready.command("device-plugin", short_help="Run the device plugin.")
def device_plugin() -> int:
    """Run the device plugin; settings come from the environment."""
    from gpuready.operands.device_plugin import daemon

    return daemon.main(os.environ)


@gpuready.command(short_help="Print a completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print a completion script.

    \b
    Examples:
      source <(gpuready completion bash)
      gpuready completion fish > ~/.config/fish/completions/gpuready.fish
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(gpuready, {}, "gpuready", "_GPUREADY_COMPLETE").source())
    return 0


class _Exporter(click.Group):
    """Its two commands, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["lint", "run"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "lint":
            from gpuready.operands.exporter.lint import lint

            return lint
        if cmd_name == "run":
            from gpuready.operands.exporter.command import run_command

            return run_command()
        return None


@gpuready.group(
    "exporter", cls=_Exporter, short_help="Run the metrics exporter, or check its counters' file."
)
def exporter() -> None:
    """Run the metrics exporter (`gpuready exporter` alone does), or check a counters' file.

    \b
    Examples:
      gpuready exporter lint counters.csv
      gpuready exporter run --help
      gpuready exporter -f counters.csv -a :9400 --kubernetes
    """


@gpuready.command(short_help="Run the container toolkit, or show what it would change.")
@click.option("--dry-run", is_flag=True, help="Print files and settings that would change; write nothing.")
@click.option("--uninstall", "undo", is_flag=True, help="Restore what was there before us, and end.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Of --dry-run.",
)
def toolkit(dry_run: bool, undo: bool, output: str) -> int:
    """Teach this node's container runtime the handlers of GPU pods; settings come from the environment.

    Exit status of --dry-run: 0 nothing would change, 1 something would, 2 could not look.

    \b
    Examples:
      gpuready toolkit --dry-run
      gpuready toolkit --uninstall --dry-run
      CONTAINERD_CONFIG=/etc/containerd/config.toml gpuready toolkit --dry-run -o json
    """
    from gpuready.operands.toolkit import command

    if dry_run:
        return command.show(os.environ, output, uninstall=undo)
    if undo:
        return command.undo(os.environ)
    from gpuready.operands.toolkit import daemon

    return daemon.main(os.environ)
