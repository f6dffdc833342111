//! A page in a browser, and what a person does there.

use std::time::{Duration, Instant};

use carillon_testbed::browser::Driver;
use fantoccini::elements::Element;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use url::{ParseError, Url};

use super::super::serve::Served;
use super::LIMIT;

/// An open page.
pub(super) struct Page {
    client: Client,
}

/// A command of the browser's own protocol.
#[derive(Debug)]
struct Own(&'static str, Value);

impl WebDriverCompatibleCommand for Own {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!(
            "session/{}/goog/cdp/execute",
            session.unwrap_or_default()
        ))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        let body = json!({"cmd": self.0, "params": self.1});
        (http::Method::POST, Some(body.to_string()))
    }
}

impl Page {
    /// Opens a page of the dashboard, and closes it when `look` has ended.
    pub(super) fn open(served: &Served, address: &str, look: impl AsyncFnOnce(&Self)) {
        let driver = Driver::start().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut wanted = Capabilities::new();
            let mut arguments = driver.arguments();
            arguments.push("--window-size=1280,900".to_owned());
            wanted.insert("goog:chromeOptions".to_owned(), json!({"args": arguments}));
            // The question before an action is for the test to answer.
            wanted.insert("unhandledPromptBehavior".to_owned(), json!("ignore"));
            let client = ClientBuilder::new(HttpConnector::new())
                .capabilities(wanted)
                .connect(&driver.url())
                .await
                .unwrap();
            let page = Self { client };
            page.client
                .goto(&format!("{}{address}", served.url))
                .await
                .unwrap();
            look(&page).await;
            page.client.close().await.unwrap();
        });
    }

    /// What an expression is.
    pub(super) async fn eval(&self, expression: &str) -> Value {
        let script = format!("return {expression};");
        self.client.execute(&script, Vec::new()).await.unwrap()
    }

    /// Waits until an expression is as it should be.
    pub(super) async fn until(&self, what: &str, expression: &str, is_so: impl Fn(&Value) -> bool) {
        let start = Instant::now();
        let script = format!("return {expression};");
        loop {
            // While a page is being loaded there is nothing to ask yet.
            let found = self.client.execute(&script, Vec::new()).await;
            if found.as_ref().is_ok_and(&is_so) {
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{what}: not within {LIMIT:?}, but {expression} is {found:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until an expression is a text.
    pub(super) async fn until_is(&self, what: &str, expression: &str, text: &str) {
        self.until(what, expression, |found| *found == *text).await;
    }

    /// An element, once it is there.
    async fn element(&self, selector: &str) -> Element {
        let wait = self.client.wait().at_most(LIMIT);
        wait.for_element(Locator::Css(selector)).await.unwrap()
    }

    /// The text of an element as it is shown.
    pub(super) async fn text(&self, selector: &str) -> String {
        self.element(selector).await.text().await.unwrap()
    }

    /// The text of an element, be it shown or not.
    pub(super) async fn text_content(&self, selector: &str) -> String {
        let found = self
            .eval(&format!("document.querySelector({selector:?}).textContent"))
            .await;
        found.as_str().unwrap_or_default().to_owned()
    }

    pub(super) async fn click(&self, selector: &str) {
        self.element(selector).await.click().await.unwrap();
    }

    /// Says yes to the question that is open.
    pub(super) async fn accept(&self) {
        self.client.accept_alert().await.unwrap();
    }

    pub(super) async fn keys(&self, selector: &str, keys: &str) {
        self.element(selector).await.send_keys(keys).await.unwrap();
    }

    pub(super) async fn reload(&self) {
        self.client.refresh().await.unwrap();
    }

    pub(super) async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.own("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// As a person has set it up who likes it dark, or light.
    pub(super) async fn dark(&self, is: bool) {
        let value = if is { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.own("Emulation.setEmulatedMedia", features).await;
    }

    pub(super) async fn goto(&self, served: &Served, address: &str) {
        self.client
            .goto(&format!("{}{address}", served.url))
            .await
            .unwrap();
    }

    /// A picture of what is shown.
    pub(super) async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    async fn own(&self, command: &'static str, parameters: Value) {
        self.client
            .issue_cmd(Own(command, parameters))
            .await
            .unwrap();
    }
}
