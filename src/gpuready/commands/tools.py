"""The commands that people type: look at a cluster, write what it needs, remove it again."""

from __future__ import annotations

import click

from gpuready import names
from gpuready.commands.options import (
    NODES_FILE,
    Seconds,
    TextFile,
    cluster_options,
    complete_nodes,
    complete_policies,
)


@click.command(short_help="Every node and how far its chain is whole.")
@cluster_options
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


@click.command(short_help="Why a GPU is not there, and why GPU pods wait.")
@cluster_options
@click.option("--node", "node_name", shell_complete=complete_nodes, help="Look at this node only.")
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


@click.command(short_help="What would change if a policy were applied.")
@cluster_options
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
    Exit status: 0 nothing would change, 1 something would or the policy is not followed as it stands (-o json
    tells which), 2 could not look.

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


@click.command(short_help="Print the CRDs; check or update a cluster's.")
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


@click.command(short_help="Print the operator's account and its rules.")
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


@click.command(short_help="Print the objects that a policy leads to.")
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


@click.command(short_help="List the images that a cluster pulls.")
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


@click.command(short_help="Remove the policy and clean every node.")
@click.argument("policy", default="", shell_complete=complete_policies)
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


@click.command(short_help="Print a completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print a completion script.

    \b
    Examples:
      source <(gpuready completion bash)
      gpuready completion fish > ~/.config/fish/completions/gpuready.fish
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(context.find_root().command, {}, "gpuready", "_GPUREADY_COMPLETE").source())
    return 0


ALL = (status, doctor, plan, crds, rbac, render, images, uninstall, completion)
