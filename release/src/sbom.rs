//! The bill of materials of a program, in the form of CycloneDX: what was compiled into it, and what lies beside it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use carillon_image::{Blob, Platform};
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::dependency::{Dependencies, Dependency};
use cyclonedx_bom::models::external_reference::{
    ExternalReference, ExternalReferenceType, ExternalReferences,
};
use cyclonedx_bom::models::hash::{Hash, HashAlgorithm, HashValue, Hashes};
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata;
use cyclonedx_bom::prelude::{Bom, DateTime, NormalizedString, Purl, SpecVersion, Uri, Validate};

use carillon_testbed::carillon::Program;

use crate::binary::{self, Binary};
use crate::packages::{self, Package};
use crate::source::Source;

const MEDIA_TYPE: &str = "application/vnd.cyclonedx+json";
const VERSION: SpecVersion = SpecVersion::V1_5;

/// `beside`: the package that files beside the program are of, if there are any.
pub(crate) fn of(
    program: Program,
    binary: &Binary,
    platform: Platform,
    source: &Source,
    beside: Option<&str>,
) -> Result<Blob> {
    let all = packages::all(binary::triple(platform))?;
    let linked = binary.packages.iter().map(|id| {
        let package = all
            .get(id)
            .with_context(|| format!("cargo built {id}, and knows no such package"))?;
        Ok((id.as_str(), package))
    });
    let linked: BTreeMap<&str, &Package> = linked.collect::<Result<_>>()?;
    let named = |name: &str| {
        let found = all.values().find(|package| package.name == name);
        found.with_context(|| format!("the lock file has no package {name}"))
    };
    let beside = beside.map(named).transpose()?;
    let bom = bom(program, &linked, beside, binary, source)?;
    let problems = bom.validate_version(VERSION);
    ensure!(
        problems.passed(),
        "the bill of materials is not valid: {problems:?}"
    );
    let mut bytes = Vec::new();
    bom.output_as_json(&mut bytes, VERSION)
        .context("writing the bill of materials")?;
    Ok(Blob::new(MEDIA_TYPE, bytes))
}

/// `linked`: what is in the binary, by id.
fn bom(
    of: Program,
    linked: &BTreeMap<&str, &Package>,
    beside: Option<&Package>,
    binary: &Binary,
    source: &Source,
) -> Result<Bom> {
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    let mut program = None;
    for package in linked.values() {
        let uses = package.uses.iter().filter_map(|id| linked.get(id.as_str()));
        dependencies.push(Dependency {
            dependency_ref: reference(package),
            dependencies: uses.map(|used| reference(used)).collect(),
        });
        let component = component(package)?;
        if package.name == of.target().0 {
            program = Some(component);
        } else {
            components.push(component);
        }
    }
    for (name, version, license) in unknown_to_cargo(binary) {
        let purl = Purl::new("generic", name, version)?;
        let mut component = Component::new(
            Classification::Library,
            name,
            version,
            Some(purl.to_string()),
        );
        component.purl = Some(purl);
        component.licenses = Some(Licenses(vec![LicenseChoice::expression(license)]));
        components.push(component);
    }
    if let Some(package) = beside {
        components.push(component(package)?);
    }
    let mut program = program.context("the program is not among what was built")?;
    program.component_type = Classification::Application;
    program.name = NormalizedString::new(of.target().1);
    let time = DateTime::try_from(source.time.to_string());
    Ok(Bom {
        version: 1,
        // Optional, and another one at each build.
        serial_number: None,
        metadata: Some(Metadata {
            timestamp: Some(time.context("the time of the commit")?),
            component: Some(program),
            ..Metadata::default()
        }),
        components: Some(Components(components)),
        services: None,
        external_references: None,
        dependencies: Some(Dependencies(dependencies)),
        compositions: None,
        properties: None,
        vulnerabilities: None,
        signature: None,
        annotations: None,
        formulation: None,
        spec_version: VERSION,
    })
}

/// What is linked in besides: name, version, licence.
fn unknown_to_cargo(Binary { tools, .. }: &Binary) -> [(&str, &str, &str); 3] {
    [
        ("glibc", &tools.glibc, "LGPL-2.1-or-later"),
        (
            "libgcc",
            &tools.gcc,
            "GPL-3.0-or-later WITH GCC-exception-3.1",
        ),
        ("rust-std", &tools.rust, "MIT OR Apache-2.0"),
    ]
}

fn component(package: &Package) -> Result<Component> {
    let Package { name, version, .. } = package;
    let mut component = Component::new(
        Classification::Library,
        name,
        version,
        Some(reference(package)),
    );
    component.description = package
        .description
        .as_deref()
        .map(|text| NormalizedString::new(text.trim()));
    // A name in the public registry that is not ours would be somebody else's.
    if package.is_published() {
        component.purl = Some(Purl::new("cargo", name, version)?);
    }
    component.licenses = package.license.as_deref().map(|license| {
        // Older crates write a slash for OR.
        let expression = license.replace('/', " OR ");
        Licenses(vec![LicenseChoice::expression(&expression)])
    });
    component.hashes = package
        .checksum
        .as_ref()
        .filter(|_| package.is_published())
        .map(|checksum| {
            Hashes(vec![Hash {
                alg: HashAlgorithm::SHA_256,
                content: HashValue(checksum.clone()),
            }])
        });
    component.external_references = package.repository.as_deref().map(|url| {
        let reference = ExternalReference::new(ExternalReferenceType::Vcs, Uri::new(url));
        ExternalReferences(vec![reference])
    });
    Ok(component)
}

/// How it is called within the document.
fn reference(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;
    use crate::binary::Tools;

    const OPERATOR: &str = "carillon-operator";

    fn package(id: &str, more: &Value) -> Package {
        let mut fields = json!({"id": id, "name": id, "version": "1.2.3"});
        for (name, value) in more.as_object().expect("fields") {
            fields[name] = value.clone();
        }
        serde_json::from_value(fields).expect("a package")
    }

    #[test]
    fn a_bill_names_what_was_linked_with_licence_and_checksum_and_what_uses_what() {
        let registry = "registry+https://example.com/index";
        let mut serde = package(
            "serde",
            &json!({"license": "MIT/Apache-2.0", "source": registry}),
        );
        serde.checksum = Some("ab".repeat(32));
        let mut operator = package(OPERATOR, &json!({"license": "Apache-2.0"}));
        operator.uses = vec!["serde".to_owned(), "only-while-building".to_owned()];
        let linked = BTreeMap::from([(OPERATOR, &operator), ("serde", &serde)]);
        let binary = Binary {
            path: PathBuf::new(),
            packages: linked.keys().map(|id| (*id).to_owned()).collect(),
            tools: Tools {
                glibc: "2.36".to_owned(),
                gcc: "12".to_owned(),
                rust: "1.95.0".to_owned(),
            },
        };
        let authorities = package("webpki-root-certs", &json!({}));
        let source = Source::of_test();
        let bom = bom(
            Program::Operator,
            &linked,
            Some(&authorities),
            &binary,
            &source,
        )
        .expect("a bill");
        assert!(bom.validate_version(VERSION).passed());
        let mut bytes = Vec::new();
        bom.output_as_json(&mut bytes, VERSION).expect("written");
        let found: Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(found["metadata"]["component"]["name"], "carillon");
        assert_eq!(found["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
        let components = found["components"].as_array().expect("a list");
        let names: Vec<&Value> = components
            .iter()
            .map(|component| &component["name"])
            .collect();
        assert_eq!(
            names,
            ["serde", "glibc", "libgcc", "rust-std", "webpki-root-certs"]
        );
        let serde = &components[0];
        assert_eq!(serde["purl"], "pkg:cargo/serde@1.2.3");
        assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(serde["hashes"][0]["content"], "ab".repeat(32));
        let uses = &found["dependencies"][0];
        assert_eq!(uses["dependsOn"], json!(["serde 1.2.3"]));
        assert!(found.get("serialNumber").is_none());
        assert!(
            found["metadata"]["component"].get("purl").is_none(),
            "not in the registry"
        );
    }
}
