{{- /* Names, labels and the image: everything two templates must agree on. */ -}}

{{- define "carillon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Prefix of object names: at most 50 characters, so that a suffix still fits into a DNS label. */ -}}
{{- define "carillon.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "carillon.serviceAccountName" -}}
{{- default (include "carillon.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "carillon.leaseName" -}}
{{- default (include "carillon.fullname" .) .Values.leaderElection.leaseName -}}
{{- end -}}

{{- define "carillon.serviceName" -}}
{{- printf "%s-metrics" (include "carillon.fullname" .) -}}
{{- end -}}

{{- /* What selects the operator's pods, and nothing else: the pod of `helm test` has another component. Immutable in a Deployment. */ -}}
{{- define "carillon.selectorLabels" -}}
app.kubernetes.io/name: {{ include "carillon.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{- /*
Labels of an object. Called with a list: the root context, the component, and what this object alone has, which may be missing. That wins over
commonLabels, and these over what only informs. What objects are selected by, and what Helm knows its own by, nobody changes.
*/ -}}
{{- define "carillon.labels" -}}
{{- $root := index . 0 -}}
{{- $chart := printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $informs := dict "helm.sh/chart" $chart "app.kubernetes.io/part-of" "carillon" -}}
{{- $_ := set $informs "app.kubernetes.io/version" ($root.Chart.AppVersion | replace "+" "_") -}}
{{- $selects := dict "app.kubernetes.io/name" (include "carillon.name" $root) "app.kubernetes.io/instance" $root.Release.Name -}}
{{- $_ := set $selects "app.kubernetes.io/component" (index . 1) -}}
{{- $_ := set $selects "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- include "carillon.merged" (list $informs $root.Values.commonLabels (rest (rest .) | first) $selects) -}}
{{- end -}}

{{- /* Mappings of strings as one, in YAML: of a key that several have, the last one wins. */ -}}
{{- define "carillon.merged" -}}
{{- $all := dict -}}
{{- range . }}{{ range $key, $value := . }}{{ $_ := set $all $key $value }}{{ end }}{{ end -}}
{{- toYaml $all -}}
{{- end -}}

{{- /* Some providers admit this class outside kube-system only where a ResourceQuota allows it: a default must not hang there. */ -}}
{{- define "carillon.priorityClassName" -}}
{{- default (ternary "system-cluster-critical" "" (eq .Release.Namespace "kube-system")) .Values.priorityClassName -}}
{{- end -}}

{{- define "carillon.image" -}}
{{- with .Values.image -}}
{{- with .registry }}{{ . | trimSuffix "/" }}/{{ end -}}
{{- .repository -}}
{{- if .digest -}}
{{- if .tag }}:{{ .tag }}{{ end }}@{{ .digest -}}
{{- else -}}
:{{ default $.Chart.AppVersion .tag -}}
{{- end -}}
{{- end -}}
{{- end -}}
