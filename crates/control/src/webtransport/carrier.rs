//! The carrier as the process has it.

use super::{Bring, Carrier, Figures, Settings};
use rustls::ServerConfig;
use std::time::Duration;

pub(super) fn start(
    settings: Settings,
    tls: &ServerConfig,
    bring: Bring,
) -> Result<::webtransport::Carrier, String> {
    let settings = ::webtransport::Settings {
        listen: settings.listen,
        takes_over: settings.takes_over,
        paths: settings.paths,
        opening_timeout: settings.opening_timeout,
        idle_timeout: settings.idle_timeout,
        close_timeout: settings.close_timeout,
        threads: settings.threads,
    };
    ::webtransport::Carrier::start(settings, tls, bring)
}

impl Carrier for ::webtransport::Carrier {
    fn renew(&self, tls: &ServerConfig) -> Result<(), String> {
        ::webtransport::Carrier::renew(self, tls)
    }

    fn figures(&self) -> Figures {
        let figures = ::webtransport::Carrier::figures(self);
        Figures {
            opening: figures.opening,
            opened: figures.opened,
            turned_away: [
                figures.refused_busy,
                figures.too_slow,
                figures.wrong,
                figures.full,
                figures.refused,
            ],
            second_streams: figures.second_streams,
            stalled: figures.stalled,
            received_bytes: figures.received_bytes,
            sent_bytes: figures.sent_bytes,
        }
    }

    fn stop(&self) {
        ::webtransport::Carrier::stop(self);
    }

    fn close(&self, within: Duration) {
        ::webtransport::Carrier::close(self, within);
    }
}
