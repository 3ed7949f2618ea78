{{/* Refuses values that cannot mean what their author meant, and says what to do instead. */}}
{{- define "gpuready.check" -}}
{{- $known := concat (.Files.Get "files/blocks.yaml" | fromYamlArray) (list "operator" "driver" "hooks" "admissionPolicy" "clusterPolicy" "nfd" "platform" "extraObjects" "global" "gpuCluster" "draDriver" "node-feature-discovery" "psp") }}
{{- range $name := keys .Values | sortAlpha }}
{{- if not (has $name $known) }}
{{- $spelt := "" }}
{{- range $known }}{{ if eq (lower .) (lower $name | replace "-" "" | replace "_" "") }}{{ $spelt = . }}{{ end }}{{ end }}
{{- if $spelt }}
{{- fail (printf "%s: this chart has no such value. Next: spell it %s" $name $spelt) }}
{{- end }}
{{- fail (printf "%s: this chart has no such value. Next: remove it, or see `helm show values` for the right name; it knows %s" $name (sortAlpha $known | join ", ")) }}
{{- end }}
{{- end }}
{{- if eq .Values.operator.image "gpu-operator" }}
{{- fail "operator.image: gpu-operator is the original's program, and this chart runs gpuready's. Next: remove operator.repository, operator.image and operator.version, or let them name gpuready's image" }}
{{- end }}
{{- if and .Values.cdi.nriPluginEnabled (not .Values.cdi.enabled) }}
{{- fail "cdi.nriPluginEnabled: the NRI plugin injects CDI devices, and cdi.enabled is false. Next: set cdi.enabled=true" }}
{{- end }}
{{- if and .Values.cdi.nriPluginEnabled (not .Values.toolkit.enabled) }}
{{- fail "cdi.nriPluginEnabled: the NRI plugin comes with the toolkit, and toolkit.enabled is false. Next: set toolkit.enabled=true" }}
{{- end }}
{{- if and .Values.operator.cleanupCRD (not .Values.hooks.enabled) }}
{{- fail "operator.cleanupCRD: a Job deletes the CRDs, and hooks.enabled is false. Next: leave cleanupCRD false and, after the uninstall, run: kubectl delete crd clusterpolicies.nvidia.com gpunodes.gpuready.dev" }}
{{- end }}
{{- if (.Values.gpuCluster | default dict).deployCR }}
{{- fail "gpuCluster.deployCR: gpuready has no GPUCluster. Next: set gpuCluster.deployCR=false; DRA is asked for in the ClusterPolicy" }}
{{- end }}
{{- if and .Values.operator.podDisruptionBudget.enabled (lt (int .Values.operator.replicas) 2) }}
{{- fail "operator.podDisruptionBudget: with one replica it would block every drain of its node. Next: set operator.replicas=2" }}
{{- end }}
{{- end }}
