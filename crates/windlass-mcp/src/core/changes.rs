//! A newer server's word that its list of tools has changed: a stream of its own, asked for again when it has ended.
//!
//! Older servers say it unasked, to the client's handler; a server that says nothing is read again now and then.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{ErrorCode, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, ServiceError, Subscription};
use windlass_engine::port::clock::Clock;

use crate::core::connect::{failed_over_http, is_unknown_there};
use crate::core::connection::Connection;
use crate::core::pause::pause_ms;

/// A newer server's word that its lists have changed.
pub(crate) struct Changes {
    peer: Peer<RoleClient>,
    clock: Arc<dyn Clock>,
    state: State,
    /// How often in a row it was asked for nothing.
    failures: u32,
}

enum State {
    /// It is being asked to tell.
    Asking(BoxFuture<'static, Result<Subscription, ServiceError>>),
    /// It tells, since a moment of the monotonic clock.
    Told(Box<Subscription>, u64),
    /// It is asked again after a while: something on the way has ended the stream.
    Waiting(BoxFuture<'static, ()>),
    /// It does not: the list is read again when its time is up.
    Untold,
}

/// A stream that has lasted so long was a good one: the next one that ends is a first one.
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

    /// Completes whenever the list may be another; never where the server does not tell. May be dropped and called again.
    pub async fn next(&mut self) {
        loop {
            match &mut self.state {
                State::Asking(asking) => match asking.await {
                    Ok(told) => {
                        self.state = State::Told(Box::new(told), self.clock.monotonic_ms());
                        // A change may have come before the server began to tell.
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

/// Whether a server will not tell, however often it is asked.
fn is_refusal(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if error.code != ErrorCode::INTERNAL_ERROR)
        || failed_over_http(error, is_unknown_there)
}
