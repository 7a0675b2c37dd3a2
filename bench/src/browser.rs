//! Headless Chromium, driven over WebDriver: one browser per lane, an empty context per page.
//!
//! A lane is a slot of the test runner's browser tests, which run one after another. The first test of a lane starts
//! the browser, and the browser ends with the test runner. A context starts without cookies, storage and cache.
//! Creating a context takes milliseconds, while a browser takes half a second. Concurrent pages use separate browsers,
//! because a WebDriver session receives the console of every page of its browser.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::mem::ManuallyDrop;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use thirtyfour::common::types::WindowHandle;
use thirtyfour::prelude::*;
use thirtyfour::{ChromeCapabilities, ChromiumLikeCapabilities};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Command-line switches for a browser without background traffic: those that ChromeDriver
/// passes to a browser that it starts.
const FLAGS: &[&str] = &[
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-service-autorun",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-hang-monitor",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--allow-pre-commit-input",
    "--enable-automation",
    "--test-type=webdriver",
    "--password-store=basic",
    "--use-mock-keychain",
    "--remote-debugging-port=0",
    "--window-size=1280,900",
    "about:blank",
];

/// Shell script that runs the browser until the owner process has ended, then removes the browser's folder. The shell
/// leads a process group, so the last `kill` also reaches processes that outlive the browser.
const UNTIL_OWNER_ENDS: &str = r#"
    owner=$1; folder=$2; shift 2
    chromium-headless-shell --user-data-dir="$folder/profile" "$@" &
    browser=$!
    tail --pid="$owner" -f /dev/null
    kill -KILL $browser; wait $browser
    rm -rf "$folder"
    kill -KILL 0"#;

/// The file in which a browser writes its port and the path of its DevTools socket.
const PORT_FILE: &str = "profile/DevToolsActivePort";
/// Interval at which a starting browser is polled for its port.
const POLL: Duration = Duration::from_millis(10);
/// Maximum number of polls before a start is treated as failed: one minute in total. A machine at full
/// load has needed a third of that time.
const MAX_POLLS: usize = 6_000;
/// Maximum number of attempts to start a browser or driver. On a machine at full load, either sometimes exits at once.
const MAX_STARTS: usize = 5;
/// Maximum duration of a script in a page: longer than any test's script waits.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(90);

/// A page in a separate context, with the driver that controls it. Dropping it ends both.
pub struct BrowserPage {
    /// The WebDriver session. Its current window is the context's page. A session that a failed test leaves behind ends
    /// with its driver's process: its own `drop` would block the runtime that it needs.
    pub driver: ManuallyDrop<WebDriver>,
    /// Folder for files that the page reads.
    pub folder: tempfile::TempDir,
    devtools: Mutex<Socket>,
    context: String,
    chromedriver: Chromedriver,
    lane: Lane,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A running browser.
struct Browser {
    /// Address of the DevTools interface: `127.0.0.1:PORT`.
    address: String,
    socket: Socket,
}

/// A ChromeDriver process with its port.
struct Chromedriver {
    process: Child,
    address: String,
}

impl BrowserPage {
    /// Opens an empty page in a new context of this lane's browser, which is started if it does not run.
    ///
    /// # Errors
    /// If Debian's `chromium-headless-shell` and `chromium-driver` are absent, or if neither starts after several tries.
    pub async fn open() -> Result<Self> {
        let mut failure = None;
        for _ in 0..MAX_STARTS {
            match Self::try_open().await {
                Ok(page) => return Ok(page),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("no browser was started")?.context("no browser starts"))
    }

    async fn try_open() -> Result<Self> {
        let lane = Lane::take();
        let Browser { address, mut socket } = lane.browser().await?;
        // The browser deletes the context when the socket closes, even if this process is killed.
        let context =
            call(&mut socket, "Target.createBrowserContext", json!({"disposeOnDetach": true})).await?;
        let context = context["browserContextId"].as_str().context("a context has an id")?.to_owned();
        let page = json!({
            "url": "about:blank", "browserContextId": context, "newWindow": true, "width": 1280, "height": 900,
        });
        let page = call(&mut socket, "Target.createTarget", page).await?;
        let page = page["targetId"].as_str().context("a page has an id")?.to_owned();
        let chromedriver = Chromedriver::start()?;
        let mut capabilities = ChromeCapabilities::new();
        capabilities.add_experimental_option("debuggerAddress", &address)?;
        capabilities.set("goog:loggingPrefs", json!({"browser": "ALL"}))?;
        let driver = WebDriver::new(&chromedriver.address, capabilities).await?;
        driver.set_script_timeout(SCRIPT_TIMEOUT).await?;
        driver.switch_to_window(WindowHandle::from(page)).await?;
        let folder = tempfile::tempdir()?;
        let driver = ManuallyDrop::new(driver);
        Ok(Self { driver, folder, devtools: Mutex::new(socket), context, chromedriver, lane })
    }

    /// Returns the windows of this context.
    ///
    /// # Errors
    /// If the browser has ended.
    pub async fn windows(&self) -> Result<Vec<WindowHandle>> {
        let targets = call(&mut *self.devtools.lock().await, "Target.getTargets", json!({})).await?;
        let targets = targets["targetInfos"].as_array().cloned().unwrap_or_default();
        let ours = |target: &&Value| target["type"] == "page" && target["browserContextId"] == *self.context;
        let ids = targets.iter().filter(ours).filter_map(|target| target["targetId"].as_str());
        Ok(ids.map(|id| WindowHandle::from(id.to_owned())).collect())
    }

    /// Grants permissions to every page of this context.
    ///
    /// # Errors
    /// If the browser does not know one of the permissions.
    pub async fn grant(&self, permissions: &[&str]) -> Result<()> {
        let grant = json!({"permissions": permissions, "browserContextId": self.context});
        call(&mut *self.devtools.lock().await, "Browser.grantPermissions", grant).await.map(drop)
    }

    /// Sends a DevTools command to the current page and returns its result.
    ///
    /// # Errors
    /// If the command is unknown or fails.
    pub async fn devtools(&self, command: &str, parameters: Value) -> Result<Value> {
        Ok(self.driver.cdp().send_raw(command, parameters).await?)
    }

    /// Ends the session. Without this, the session ends with its driver's process.
    ///
    /// # Errors
    /// If the driver has ended.
    pub async fn quit(self) -> Result<()> {
        WebDriver::clone(&self.driver).quit().await?;
        drop((self.chromedriver, self.lane));
        Ok(())
    }
}

/// Sends a command to the browser and waits for its response.
async fn call(socket: &mut Socket, method: &str, params: Value) -> Result<Value> {
    let request = json!({"id": 1, "method": method, "params": params});
    socket.send(Message::text(request.to_string())).await?;
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else { continue };
        let mut answer: Value = serde_json::from_str(&text)?;
        if answer["id"] != 1 {
            continue;
        }
        if !answer["error"].is_null() {
            bail!("{method}: {}", answer["error"]);
        }
        return Ok(answer["result"].take());
    }
    bail!("the browser closed its socket before it answered {method}")
}

/// A browser slot that the tests of one nextest slot share. Dropping it releases the slot.
struct Lane {
    /// The process with which the browser ends.
    owner: u32,
    /// The lane's number among the browsers of this process.
    number: usize,
    folder: PathBuf,
}

/// The lane numbers in use in this process.
static TAKEN: std::sync::Mutex<BTreeSet<usize>> = std::sync::Mutex::new(BTreeSet::new());

impl Drop for Lane {
    fn drop(&mut self) {
        taken().remove(&self.number);
    }
}

fn taken() -> MutexGuard<'static, BTreeSet<usize>> {
    // A panic cannot leave the set inconsistent.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    /// Takes a free lane of the owner. Under nextest, the owner is the test runner, which starts a process per
    /// test; otherwise it is this process.
    fn take() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let (owner, slot) = match variable("NEXTEST_TEST_GROUP_SLOT") {
            Some(slot) if variable("NEXTEST").is_some() => (std::os::unix::process::parent_id(), slot),
            _ => (std::process::id(), "none".to_owned()), // tidy: any other value is no slot
        };
        let mut taken = taken();
        let number = (0..).find(|number| !taken.contains(number)).unwrap_or_default();
        taken.insert(number);
        let name = format!("windlass-browser-{owner}-{slot}-{number}");
        Self { owner, number, folder: std::env::temp_dir().join(name) }
    }

    /// Connects to the lane's browser. Starts a browser first if none runs or the running one does not respond.
    async fn browser(&self) -> Result<Browser> {
        std::fs::create_dir_all(&self.folder)?;
        // Tests of one process may run in parallel. Closing the file releases the lock.
        let lock = File::create(self.folder.join("lock"))?;
        let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
        let browser = match self.connect().await {
            Some(browser) => browser,
            None => self.start().await?,
        };
        drop(lock);
        Ok(browser)
    }

    async fn connect(&self) -> Option<Browser> {
        let file = std::fs::read_to_string(self.folder.join(PORT_FILE)).ok()?;
        let (port, path) = file.split_once('\n')?;
        let address = format!("127.0.0.1:{port}");
        let (socket, _) = connect_async(format!("ws://{address}{}", path.trim())).await.ok()?;
        Some(Browser { address, socket })
    }

    async fn start(&self) -> Result<Browser> {
        let _ = std::fs::remove_dir_all(self.folder.join("profile"));
        let mut shell = Command::new("sh");
        shell.args(["-c", UNTIL_OWNER_ENDS, "sh", &self.owner.to_string()]).arg(&self.folder).args(FLAGS);
        shell.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().context("could not start a shell for the browser")?;
        for _ in 0..MAX_POLLS {
            if let Some(browser) = self.connect().await {
                return Ok(browser);
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("Debian's `chromium-headless-shell`, which `cargo xtask test` installs, did not start")
    }
}

impl Chromedriver {
    /// Starts ChromeDriver. It needs its port on both loopback addresses, and exits
    /// if another process uses one of them.
    fn start() -> Result<Self> {
        let mut process = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("could not start `chromedriver`, which `cargo xtask test` installs")?;
        let output = process.stdout.take().context("its output is a pipe")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            Some(line.split_once("successfully on port ")?.1.trim_end_matches('.').to_owned())
        });
        // Without a reader of its output, ChromeDriver would end at its next line.
        std::thread::spawn(move || lines.for_each(drop));
        let address = format!("http://127.0.0.1:{}", port.as_deref().unwrap_or_default());
        let chromedriver = Self { process, address };
        port.map(|_| chromedriver).context("`chromedriver` reported no port")
    }
}

impl Drop for Chromedriver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
