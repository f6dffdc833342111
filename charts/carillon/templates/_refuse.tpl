{{- /* Combinations of values that a schema can not refuse. Each message says what to set instead. */ -}}
{{- define "carillon.refuse" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.replicaCount) 1) -}}
{{- fail "replicaCount above 1 needs leaderElection.enabled=true: without a lease all replicas would write at once. Set replicaCount=1 or enable leader election." -}}
{{- end -}}
{{- /* Only a cluster can be asked: of `helm template` nothing is known. */ -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- range .Values.watchNamespaces -}}
{{- if not (lookup "v1" "Namespace" "" .) -}}
{{- fail (printf "watchNamespaces: there is no namespace %s. Create it first: what serves the others would lose its permissions." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.create=false needs serviceAccount.name: the permissions would go to the ServiceAccount `default`, which every pod of the namespace may use." -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled would scrape every series twice. Enable one of them." -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.service.enabled=true. Or use metrics.podMonitor." -}}
{{- end -}}
{{- end -}}
