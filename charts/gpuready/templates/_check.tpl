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
{{- /* Nobody would be there to say so: the operator's own pod could not be pulled. Source: distribution/reference */}}
{{- $path := "[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*" }}
{{- $host := "([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?|\\[[a-fA-F0-9:]+\\])(:[0-9]+)?" }}
{{- $tag := "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?" }}
{{- $image := include "gpuready.image" . }}
{{- if not (regexMatch (printf "^(%s/)?%s(/%s)*%s$" $host $path $path $tag) $image) }}
{{- fail (printf "operator.repository, operator.image, operator.version: there can be no image %s. Next: write REGISTRY[:PORT]/PATH without https://, a name in small letters, and a tag or sha256:DIGEST" $image) }}
{{- end }}
{{- with .Values.gpuready.registry }}
{{- if not (regexMatch (printf "^%s(/%s)*/?$" $host $path) .) }}
{{- fail (printf "gpuready.registry: no image can come from %s. Next: write REGISTRY[:PORT][/PATH] without https://" .) }}
{{- end }}
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
{{- if and .Values.driver.enabled .Values.driver.nvidiaDriverCRD.enabled }}
{{- fail "driver.nvidiaDriverCRD.enabled: gpuready follows no NVIDIADriver objects yet, and no node would get a driver. Next: set driver.nvidiaDriverCRD.enabled=false and describe the driver in the values below driver; where nodes need different drivers, bring them on the nodes and set driver.enabled=false" }}
{{- end }}
{{- $unavailable := dict "driver.upgradePolicy.maxUnavailable" (.Values.driver.upgradePolicy | default dict).maxUnavailable "daemonsets.rollingUpdate.maxUnavailable" (.Values.daemonsets.rollingUpdate | default dict).maxUnavailable }}
{{- range $name, $value := $unavailable }}
{{- $text := kindIs "invalid" $value | ternary "" (toString $value) }}
{{- if not (regexMatch "^([0-9]+|[0-9]{1,2}%|100%|)$" $text) }}
{{- fail (printf "%s: %s is neither a number of nodes nor a percentage. Next: write it like 1 or 25%%" $name $text) }}
{{- end }}
{{- end }}
{{- range $block := list "devicePlugin" "migManager" "dcgmExporter" }}
{{- with (index $.Values $block).config }}
{{- if and .create (not .name) }}
{{- fail (printf "%s.config.name: the ConfigMap that %s.config.create writes needs a name. Next: give it one, or set %s.config.create=false" $block $block $block) }}
{{- end }}
{{- if and .create (not .data) }}
{{- fail (printf "%s.config.data: %s.config.create writes a ConfigMap, and there is nothing to write. Next: give the data, or set %s.config.create=false and name a ConfigMap that is there" $block $block $block) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.devicePlugin.config }}
{{- if and .create .default (not (hasKey .data .default)) }}
{{- fail (printf "devicePlugin.config.default: %s is none of the configurations in devicePlugin.config.data. Next: name one of %s, or leave it empty" .default (keys .data | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- if and .Values.operator.podDisruptionBudget.enabled (lt (int .Values.operator.replicas) 2) }}
{{- fail "operator.podDisruptionBudget: with one replica it would block every drain of its node. Next: set operator.replicas=2" }}
{{- end }}
{{- end }}
