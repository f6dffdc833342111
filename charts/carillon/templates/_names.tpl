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
app.kubernetes.io/name: {{ include "carillon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- /* Labels of every object, except the component. */ -}}
{{- define "carillon.labels" -}}
app.kubernetes.io/name: {{ include "carillon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/part-of: carillon
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
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
