{{- /*
Rules of roles, of files/permissions.yaml: of each row whoever is served needs, in one rule for each resource. Called with a list: the root
context, and where the rules are to hold.
*/ -}}
{{- define "carillon.permissions" -}}
{{- $root := index . 0 }}
{{- $where := index . 1 }}
{{- $served := include "carillon.served" $root | splitList "," }}
{{- $verbs := dict }}
{{- $why := dict }}
{{- range $row := $root.Files.Get "files/permissions.yaml" | fromYamlArray }}
{{- $needed := false }}
{{- range $row.for }}{{ if has . $served }}{{ $needed = true }}{{ end }}{{ end }}
{{- if and $needed (eq $where (default "namespaces" $row.where)) }}
{{- $rule := printf "%s %s %t" $row.group $row.resource (default false $row.named) }}
{{- $_ := set $verbs $rule (concat (get $verbs $rule | default list) $row.verbs | uniq | sortAlpha) }}
{{- $_ := set $why $rule (append (get $why $rule | default list) (printf "%s: %s" (join ", " $row.verbs) $row.why)) }}
{{- end }}
{{- end }}
{{- range $rule := keys $verbs | sortAlpha }}
{{- $parts := splitList " " $rule }}
{{- range get $why $rule }}
# {{ . }}
{{- end }}
- apiGroups: [{{ index $parts 0 | quote }}]
  resources: [{{ index $parts 1 }}]
  {{- if eq (index $parts 2) "true" }}
  resourceNames: [{{ include "carillon.leaseName" $root | quote }}]
  {{- end }}
  verbs: [{{ get $verbs $rule | join ", " }}]
{{- end }}
{{- end -}}

{{- /* Who needs permissions, joined by commas: the words of `for` in files/permissions.yaml. */ -}}
{{- define "carillon.served" -}}
{{- $served := default (list "broadcastjob" "cronjob" "daemonset" "job") .Values.controllers }}
{{- if has "jobs" .Values.serveNative }}{{ $served = append $served "job" }}{{ end }}
{{- if has "cronjobs" .Values.serveNative }}{{ $served = append $served "native-cronjob" }}{{ end }}
{{- if has "daemonsets" .Values.serveNative }}{{ $served = append $served "native-daemonset" }}{{ end }}
{{- if .Values.leaderElection.enabled }}{{ $served = append $served "leader-election" }}{{ end }}
{{- $served | uniq | join "," }}
{{- end -}}
