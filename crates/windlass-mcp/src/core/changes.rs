//! Notifications of a newer server that its list of tools has changed. They arrive on a subscription, which is renewed
//! when it ends.
//!
//! Older servers notify the client's handler without a subscription. The list of a server that sends no notifications
//! is read periodically.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{ErrorCode, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, ServiceError, Subscription};
use windlass_engine::port::clock::Clock;

use crate::core::connect::{failed_over_http, is_unknown_there};
use crate::core::connection::Connection;
use crate::core::pause::pause_ms;

/// The subscription to changes of a server's lists.
pub(crate) struct Changes {
    peer: Peer<RoleClient>,
    clock: Arc<dyn Clock>,
    state: State,
    /// Consecutive failures to subscribe.
    failures: u32,
}

enum State {
    /// The subscription is being requested.
    Asking(BoxFuture<'static, Result<Subscription, ServiceError>>),
    /// Subscribed, since a time of the monotonic clock.
    Told(Box<Subscription>, u64),
    /// Waiting to subscribe again, after the stream has broken.
    Waiting(BoxFuture<'static, ()>),
    /// The server does not support subscriptions; the list is read when it expires.
    Untold,
}

/// Duration in milliseconds after which a stream resets the count of failures.
const GOOD_MS: u64 = 30_000;

impl Changes {
    pub fn of(connection: &Connection, clock: Arc<dyn Clock>) -> Self {
        let info = &connection.info;
        let tells = info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        let mut changes = Self { peer: connection.peer.clone(), clock, state: State::Untold, failures: 0 };
        if tells && !info.protocol_version.has_initialize() {
            changes.state = changes.asking();
        }
        changes
    }

    fn asking(&self) -> State {
        let (peer, filter) = (self.peer.clone(), SubscriptionFilter::builder().tools_list_changed());
        State::Asking(async move { peer.listen(filter.build()).await }.boxed())
    }

    fn waiting(&mut self) -> State {
        self.failures = self.failures.saturating_add(1);
        State::Waiting(self.clock.sleep_ms(pause_ms(self.failures, self.clock.random())))
    }

    /// Completes when the list may have changed. Never completes if the
    /// server sends no notifications. Cancel safe.
    pub async fn next(&mut self) {
        loop {
            match &mut self.state {
                State::Asking(asking) => match asking.await {
                    Ok(told) => {
                        self.state = State::Told(Box::new(told), self.clock.monotonic_ms());
                        // The list may have changed before the subscription began.
                        return;
                    }
                    Err(error) if is_refusal(&error) => self.state = State::Untold,
                    Err(_) => self.state = self.waiting(),
                },
                State::Told(subscription, since_ms) => {
                    let said = subscription.next().await;
                    if self.clock.monotonic_ms().saturating_sub(*since_ms) >= GOOD_MS {
                        self.failures = 0;
                    }
                    if matches!(said, Ok(Some(_))) {
                        return;
                    }
                    self.state = self.waiting();
                }
                State::Waiting(waiting) => {
                    waiting.await;
                    self.state = self.asking();
                }
                State::Untold => std::future::pending().await,
            }
        }
    }
}

/// Whether the server rejects the subscription permanently.
fn is_refusal(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if error.code != ErrorCode::INTERNAL_ERROR)
        || failed_over_http(error, is_unknown_there)
}
