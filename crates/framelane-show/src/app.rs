//! A window's life: what it does at each event of the display server and of its panes.

use crate::display::{Display, PaneStatus};
use crate::hand::{Hand, Pixel};
use crate::keys::{self, Action};
use crate::link::{Link, Message, PaneRequest, Wake};
use crate::overlay::{Content, Info, Value};
use crate::rect::Rect;
use crate::screen::{Acquired, Open, Screen};
use crate::screenshot;
use crate::window::{Parts, WindowOptions, WindowReport};
use framelane::Result;
use framelane::frame::ImageSize;
#[cfg(unix)]
use framelane::share::Listener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use winit::application::ApplicationHandler;
use winit::event::{ElementState, KeyEvent, MouseButton, MouseScrollDelta, WindowEvent};
use winit::event_loop::{ActiveEventLoop, ControlFlow};
use winit::window::{Fullscreen, WindowId};

/// The numbers in title and overlay change no more often than this: faster nobody can read.
const READING: Duration = Duration::from_millis(500);
/// So long after the last frame the numbers are drawn once more, to say that nothing comes.
const SETTLE: Duration = Duration::from_millis(2200);
/// A surface that could not be drawn into is asked again after this long.
const RETRY: Duration = Duration::from_millis(100);
/// So often in a row, until it counts as one that nobody sees.
const PATIENCE: u32 = 3;
/// A message stays this long.
const MESSAGE: Duration = Duration::from_millis(3500);
/// Pictures of which nobody tells, a GPU's and other processes', are looked for as often: twice in a fast refresh.
const LOOK: Duration = Duration::from_millis(2);

/// Processes that would like to show something are looked for as often.
const LISTEN: Duration = Duration::from_millis(30);
/// A window waits so long for the first pictures of all panes, to be sized for them.
const FIRST: Duration = Duration::from_millis(300);
/// Steps of the wheel that one event of it counts for, at most.
const MOST_STEPS: f64 = 3.0;

pub(crate) struct App {
    options: WindowOptions,
    link: Arc<Link>,
    instance: wgpu::Instance,
    adapter: wgpu::Adapter,
    display: Display,
    #[cfg(unix)]
    listener: Option<Listener>,
    /// `None` until the first picture.
    screen: Option<Screen>,

    paused: bool,
    info: bool,
    help: bool,
    /// Mouse, divider, zoom.
    hand: Hand,
    /// The pixel that was read back last, and of which picture: the one that its pane had shown so many before.
    value: Option<(Pixel, u64, [u8; 3])>,
    /// Nobody can see the window.
    covered: bool,
    /// Times in a row that the surface gave nothing to draw into, for the same reason or because it is slow.
    refused: u32,

    /// What is told of each pane, as of `rate_at`.
    infos: Vec<Info>,
    rate_at: Option<Instant>,
    settle_at: Option<Instant>,
    /// When the first picture was there.
    first_at: Option<Instant>,
    /// The surface gave nothing to draw into: ask again then.
    retry_at: Option<Instant>,
    look_at: Option<Instant>,
    /// Words about a pane, or all of them, and until when they are shown.
    message: Option<(String, Option<usize>, Instant)>,
    last_screenshot: Option<PathBuf>,
    saving: Vec<JoinHandle<()>>,

    drawn: u64,
    closing: bool,
    closed_by_user: bool,
    /// How many panes had ended when they were looked at last.
    ended: usize,
    /// Panes that were taken away.
    dismissed: Vec<PaneStatus>,
    failed: Result<()>,
}

impl App {
    pub(crate) fn new(options: WindowOptions, parts: Parts) -> Self {
        let Parts {
            link,
            instance,
            adapter,
            display,
            #[cfg(unix)]
            listener,
        } = parts;
        Self {
            options,
            link,
            instance,
            adapter,
            display,
            #[cfg(unix)]
            listener,
            screen: None,
            paused: false,
            info: true,
            help: false,
            hand: Hand::default(),
            value: None,
            covered: false,
            refused: 0,
            infos: Vec::new(),
            rate_at: None,
            settle_at: None,
            first_at: None,
            retry_at: None,
            look_at: None,
            message: None,
            last_screenshot: None,
            saving: Vec::new(),
            drawn: 0,
            closing: false,
            closed_by_user: false,
            ended: 0,
            dismissed: Vec::new(),
            failed: Ok(()),
        }
    }

    /// What it all came to.
    pub(crate) fn report(mut self) -> Result<WindowReport> {
        for save in self.saving.drain(..) {
            // A writer that panicked has printed why; the window is closed, nobody else can be told.
            let _ = save.join();
        }
        self.failed?;
        // It is, unless the event loop failed.
        self.display.close(true);
        self.link.end();
        let status = self.link.status().clone();
        Ok(WindowReport {
            panes: self.dismissed.into_iter().chain(self.display.panes()).collect(),
            closed_by_user: self.closed_by_user,
            readbacks: self.display.readbacks(),
            path: status.path(),
            age: self.display.ages(),
        })
    }

    fn size(&self) -> (u32, u32) {
        self.screen.as_ref().map_or((0, 0), Screen::size)
    }

    /// Look for workers, and for pictures of all panes; draw if there are any.
    fn look(&mut self, events: &ActiveEventLoop) -> Result<()> {
        self.admit()?;
        if self.paused {
            self.display.tend();
            self.see_ends();
            return Ok(());
        }
        self.link.disarm_wake();
        // What cannot be seen is taken, too: a file plays on, a stream stays young, and nothing is drawn.
        let visible = self.screen.is_none() || self.can_be_seen();
        // What waits to be drawn is replaced by something newer only then: until then it would be fetched for nothing.
        if self.screen.is_none() || !visible || !self.display.has_unseen() {
            self.display.refresh(visible)?;
        }
        self.see_ends();
        if self.screen.is_none() {
            return self.appear(events);
        }
        if visible && self.display.has_unseen() {
            self.redraw();
        }
        Ok(())
    }

    /// Say at once that a pane has ended, though no picture comes to be drawn.
    fn see_ends(&mut self) {
        let ended = self.display.ended();
        if std::mem::replace(&mut self.ended, ended) != ended {
            self.read_numbers(Instant::now(), true);
            self.redraw();
        }
    }

    #[cfg(unix)]
    fn admit(&mut self) -> Result<()> {
        let Some(listener) = &mut self.listener else { return Ok(()) };
        let mut came = false;
        while self.display.accept(listener, Duration::ZERO)?.is_some() {
            came = true;
        }
        if came {
            self.rate_at = None;
            self.redraw();
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn admit(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether workers may still come.
    fn listens(&self) -> bool {
        #[cfg(unix)]
        return self.listener.is_some();
        #[cfg(not(unix))]
        false
    }

    /// Open the window, if there is a picture or it shall be open without.
    fn appear(&mut self, events: &ActiveEventLoop) -> Result<()> {
        let panes = self.display.tiles(1, 1).count();
        let sizes: Vec<_> =
            (0..panes).filter_map(|pane| self.display.sizes(pane)).map(|(size, _)| size).collect();
        let (columns, rows) = crate::display::grid(panes);
        // Tiles are alike, so that the largest pictures decide.
        let side = |of: fn(&ImageSize) -> usize| sizes.iter().map(of).max();
        let tiled = side(|size| size.width).zip(side(|size| size.height));
        let tiled = tiled.map(|(width, height)| ImageSize { width: width * columns, height: height * rows });
        let Some(picture) = self.options.size.or(tiled) else { return Ok(()) };
        let since = *self.first_at.get_or_insert_with(Instant::now);
        if self.options.size.is_none() && sizes.len() < panes && since.elapsed() < FIRST {
            return Ok(());
        }
        let WindowOptions { title, vsync, .. } = &self.options;
        let how = Open { title, picture, fifo: self.display.is_fifo(), vsync: *vsync };
        let gpu = self.display.gpu().clone();
        self.screen = Some(Screen::open(events, &self.instance, &self.adapter, gpu, &how)?);
        self.redraw();
        Ok(())
    }

    fn is_minimised(&self) -> bool {
        self.screen.as_ref().is_some_and(|screen| {
            let size = screen.window.inner_size();
            size.width == 0 || size.height == 0
        })
    }

    fn can_be_seen(&self) -> bool {
        self.screen.is_some() && !self.covered && self.refused < PATIENCE && !self.is_minimised()
    }

    fn redraw(&self) {
        if let Some(screen) = &self.screen {
            screen.window.request_redraw();
        }
    }

    fn draw(&mut self) -> Result<()> {
        if self.is_minimised() {
            return Ok(());
        }
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let target = match screen.acquire()? {
            Acquired::Ready(target) => target,
            Acquired::Again => {
                self.redraw();
                return Ok(());
            }
            Acquired::Hidden => {
                self.refused += 1;
                if !self.paused {
                    self.link.disarm_wake();
                    self.display.refresh(false)?;
                }
                self.retry_at = Some(Instant::now() + RETRY);
                return Ok(());
            }
        };
        self.refused = 0;
        if !self.paused {
            // Only now, as late as can be: the wait for the refresh is over.
            self.display.make_room()?;
            self.link.disarm_wake();
            self.display.refresh(true)?;
        }
        let now = Instant::now();
        let (width, height) = self.size();
        self.display.set_split(self.hand.split);
        let fresh = self.display.draw(ImageSize { width: width as usize, height: height as usize })?;
        if fresh > 0 {
            self.settle_at = Some(now + SETTLE);
        }
        self.read_numbers(now, false);
        let content = self.content(now)?;
        let (Some(screen), Some(composed)) = (&mut self.screen, self.display.target()) else { return Ok(()) };
        screen.present(target, &composed.view, &content)?;
        self.drawn += 1;
        Ok(())
    }

    /// Bring title and overlay up to date, if it is time or `must` be.
    fn read_numbers(&mut self, now: Instant, must: bool) {
        let statuses = self.display.panes();
        let shown: u64 = statuses.iter().map(|pane| pane.presented).sum();
        let due =
            must || self.rate_at.is_none_or(|at| now >= at + READING) || self.infos.len() != statuses.len();
        if due {
            // The first rates are of too few pictures to be kept on the screen for long.
            self.rate_at = (shown > statuses.len() as u64).then_some(now);
        }
        let paused = self.paused.then(|| "paused".to_owned());
        let mut infos = Vec::with_capacity(statuses.len());
        for (n, status) in statuses.into_iter().enumerate() {
            let (fps, age_ms) = match self.infos.get(n).filter(|_| !due) {
                Some(old) => (old.fps, old.age_ms),
                None => {
                    let rate = self.display.rate(n, now);
                    (rate.fps, rate.age.as_secs_f64() * 1e3)
                }
            };
            let state = status.ended.or_else(|| paused.clone());
            let (name, dropped) = (status.name, status.dropped);
            infos.push(Info { tile: Rect::default(), name, fps, age_ms, dropped, state });
        }
        self.infos = infos;
        if !due {
            return;
        }
        let Some(screen) = &self.screen else { return };
        let title = &self.options.title;
        let title = match (&self.infos[..], shown > 1) {
            _ if self.paused => format!("{title} — paused"),
            _ if self.has_ended() => format!("{title} — end"),
            ([only], true) => format!("{title} — {:.1} fps, {:.0} ms", only.fps, only.age_ms),
            _ => title.clone(),
        };
        screen.window.set_title(&title);
    }

    /// Whether no picture follows.
    fn has_ended(&self) -> bool {
        self.display.has_ended() && !self.listens()
    }

    fn content(&mut self, now: Instant) -> Result<Content> {
        let (width, height) = self.size();
        let tiles: Vec<_> = self.display.tiles(width, height).collect();
        let mut infos = Vec::new();
        if self.info {
            infos.clone_from(&self.infos);
            infos.iter_mut().zip(&tiles).for_each(|(info, (_, tile))| info.tile = *tile);
        }
        let value = if self.hand.value { self.value(width, height)? } else { None };
        let message = self.message.as_ref().filter(|(.., until)| now < *until);
        let message = message.map(|(text, pane, _)| {
            let tile =
                pane.and_then(|pane| tiles.get(pane)).map_or_else(|| whole(width, height), |(_, tile)| *tile);
            (text.clone(), tile)
        });
        Ok(Content {
            tiles: tiles.iter().map(|(_, tile)| *tile).collect(),
            infos,
            dividers: self.hand.dividers(&self.display, width, height),
            value,
            notice: tiles.is_empty().then(|| self.options.notice.clone()).flatten(),
            help: self.help.then(|| self.link.status().path()),
            message,
        })
    }

    /// The pixel under the mouse. Read back only if it is another one, or of another picture.
    fn value(&mut self, width: u32, height: u32) -> Result<Option<Value>> {
        let Some((pixel, placed)) = self.hand.pixel(&self.display, width, height) else {
            self.value = None;
            return Ok(None);
        };
        let Pixel { pane, before, x, y } = pixel;
        let tile = self
            .display
            .tiles(width, height)
            .nth(pane)
            .map_or_else(|| whole(width, height), |(_, tile)| tile);
        let presented = self.display.presented(pane);
        let rgb = match self.value {
            Some((of, shown, rgb)) if (of, shown) == (pixel, presented) => rgb,
            _ => {
                let Some(rgb) = self.display.read_pixel_of(pane, before, x, y)? else { return Ok(None) };
                rgb
            }
        };
        self.value = Some((pixel, presented, rgb));
        Ok(Some(Value { tile, pixel: placed, rgb, text: value_text(pixel, rgb) }))
    }

    fn say(&mut self, text: impl Into<String>, pane: Option<usize>) {
        self.message = Some((text.into(), pane, Instant::now() + MESSAGE));
        self.redraw();
    }

    fn act(&mut self, action: Action, events: &ActiveEventLoop) -> Result<()> {
        let (width, height) = self.size();
        match action {
            Action::Pause => {
                self.paused = !self.paused;
                self.read_numbers(Instant::now(), true);
            }
            Action::FullScreen => self.set_full_screen(!self.is_full_screen()),
            Action::Screenshot => self.screenshot()?,
            Action::Split if self.hand.split.is_some() => self.hand.split = None,
            Action::Split if !self.has_before() => {
                self.say("This stream has no picture from before the network", None);
            }
            Action::Split => self.hand.split = Some(0.5),
            Action::MoveDivider(step) => {
                self.hand.split = self.hand.split.map(|split| (split + step).clamp(0.0, 1.0));
            }
            Action::Zoom(factor) => self.hand.zoom(&mut self.display, width, height, factor)?,
            Action::Fit => self.hand.fit(&mut self.display, width, height)?,
            Action::OwnSize => self.hand.own_size(&mut self.display, width, height)?,
            Action::Value => self.hand.value = !self.hand.value,
            Action::Info => self.info = !self.info,
            Action::Help => self.help = !self.help,
            Action::Dismiss => self.dismiss(),
            Action::Back if self.help => self.help = false,
            Action::Back if self.is_full_screen() => self.set_full_screen(false),
            Action::Back | Action::Close => self.close(events, true),
        }
        self.redraw();
        Ok(())
    }

    /// Take away the panes that have ended, but for the last ones of a window that nobody may come to.
    fn dismiss(&mut self) {
        if self.has_ended() {
            self.say("Every pane has ended: q closes the window", None);
            return;
        }
        let dismissed = self.display.dismiss_ended();
        if dismissed.is_empty() {
            self.say("No pane has ended", None);
            return;
        }
        self.dismissed.extend(dismissed);
        // Panes have other numbers now.
        (self.infos, self.value, self.rate_at) = (Vec::new(), None, None);
        self.message = None;
        self.hand.released();
    }

    fn has_before(&self) -> bool {
        self.display
            .tiles(1, 1)
            .any(|(pane, _)| self.display.sizes(pane).is_some_and(|(_, before)| before.is_some()))
    }

    fn is_full_screen(&self) -> bool {
        self.screen.as_ref().is_some_and(|screen| screen.window.fullscreen().is_some())
    }

    fn set_full_screen(&self, on: bool) {
        if let Some(screen) = &self.screen {
            screen.window.set_fullscreen(on.then_some(Fullscreen::Borderless(None)));
        }
    }

    fn close(&mut self, events: &ActiveEventLoop, by_user: bool) {
        // The first reason counts: what is closed looks like the streams' end.
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        self.closed_by_user = by_user;
        // Pictures that wait for the window to be seen again no longer will be.
        self.display.close(self.can_be_seen());
        events.exit();
    }

    /// Save what the pane under the mouse shows, or the first one, at the picture's own size.
    fn screenshot(&mut self) -> Result<()> {
        let (width, height) = self.size();
        let pane = self.hand.pane(&self.display, width, height).unwrap_or(0);
        let Some(meta) = self.display.meta(pane).cloned() else { return Ok(()) };
        let has_before = self.display.sizes(pane).is_some_and(|(_, before)| before.is_some());
        let Some((rgb, size)) = self.display.read_pane(pane)? else { return Ok(()) };
        let split = has_before && self.hand.split.is_some();
        let saving = screenshot::save(self.link.clone(), pane, &meta, split, rgb, size);
        self.saving.retain(|save| !save.is_finished());
        match saving {
            Ok(save) => self.saving.push(save),
            Err(error) => self.say(format!("The screenshot could not be saved: {error}"), Some(pane)),
        }
        Ok(())
    }

    fn key(&mut self, key: &KeyEvent, events: &ActiveEventLoop) -> Result<()> {
        if key.state != ElementState::Pressed {
            return Ok(());
        }
        self.link.pressed(keys::name(&key.logical_key));
        match keys::action(&key.logical_key) {
            // A key that is held moves the divider on, but does not pause and go on and pause.
            Some(action) if !key.repeat || matches!(action, Action::MoveDivider(_) | Action::Zoom(_)) => {
                self.act(action, events)
            }
            _ => Ok(()),
        }
    }

    fn mouse_moved(&mut self, x: f64, y: f64) -> Result<()> {
        let (width, height) = self.size();
        let Some(screen) = &self.screen else { return Ok(()) };
        let scale = screen.window.scale_factor();
        let (icon, changed) = self.hand.moved(&mut self.display, width, height, x, y, scale)?;
        screen.window.set_cursor(icon);
        if changed {
            self.redraw();
        }
        Ok(())
    }

    fn wheel(&mut self, delta: MouseScrollDelta) -> Result<()> {
        let (width, height) = self.size();
        let steps = match delta {
            MouseScrollDelta::LineDelta(_, y) => f64::from(y),
            MouseScrollDelta::PixelDelta(by) => by.y / 40.0,
        };
        // A wheel that was turned over another window may be told of at once, as many steps.
        let steps = steps.clamp(-MOST_STEPS, MOST_STEPS);
        self.hand.zoom(&mut self.display, width, height, keys::MAGNIFY.powf(steps))?;
        self.redraw();
        Ok(())
    }

    fn window_event(&mut self, event: WindowEvent, events: &ActiveEventLoop) -> Result<()> {
        let (width, height) = self.size();
        match event {
            WindowEvent::RedrawRequested => self.draw()?,
            WindowEvent::CloseRequested => self.close(events, true),
            WindowEvent::Resized(size) => {
                if let Some(screen) = &mut self.screen {
                    screen.resize(size);
                    self.display.gpu().check()?;
                }
                self.redraw();
            }
            WindowEvent::ScaleFactorChanged { .. } => self.redraw(),
            WindowEvent::Occluded(covered) => {
                self.covered = covered;
                self.redraw();
            }
            WindowEvent::KeyboardInput { event, is_synthetic: false, .. } => self.key(&event, events)?,
            WindowEvent::CursorMoved { position, .. } => self.mouse_moved(position.x, position.y)?,
            WindowEvent::CursorLeft { .. } => {
                self.hand.left();
                self.redraw();
            }
            WindowEvent::MouseWheel { delta, .. } => self.wheel(delta)?,
            WindowEvent::MouseInput { state: ElementState::Pressed, button: MouseButton::Left, .. } => {
                let scale = self.screen.as_ref().map_or(1.0, |screen| screen.window.scale_factor());
                self.hand.pressed(&self.display, width, height, scale);
            }
            WindowEvent::MouseInput { button: MouseButton::Left, .. } => self.hand.released(),
            _ => {}
        }
        Ok(())
    }

    fn wake(&mut self, wake: Wake, events: &ActiveEventLoop) -> Result<()> {
        match wake {
            Wake::Picture => self.look(events)?,
            Wake::Close => self.close(events, false),
            Wake::Pane(PaneRequest { name, device, options, answer }) => {
                // Who asked may have given up.
                let _ = answer.send(self.display.pane(name, &device, &options));
                self.rate_at = None;
                self.redraw();
            }
            Wake::End => {
                self.look(events)?;
                self.read_numbers(Instant::now(), true);
                self.redraw();
            }
            Wake::Saved(pane, Ok(path)) => {
                self.say(format!("Saved {}", path.display()), Some(pane));
                self.last_screenshot = Some(path);
            }
            Wake::Saved(pane, Err(why)) => self.say(why, Some(pane)),
        }
        Ok(())
    }

    /// A failure ends the window, and is told by [`App::report`].
    fn note(&mut self, result: Result<()>, events: &ActiveEventLoop) {
        if let Err(error) = result {
            self.failed = Err(error);
            self.close(events, false);
        }
    }

    fn tell_status(&self) {
        let mut status = self.link.status();
        status.open = self.screen.is_some();
        status.size = self.size();
        status.panes = self.display.panes();
        status.drawn = self.drawn;
        status.readbacks = self.display.readbacks();
        status.paused = self.paused;
        status.split = self.hand.split;
        status.value = self.value.map(|(pixel, _, rgb)| value_text(pixel, rgb));
        status.info = self.info;
        status.help = self.help;
        status.full_screen = self.is_full_screen();
        status.ended = self.has_ended();
        status.screenshot.clone_from(&self.last_screenshot);
    }

    /// Do what is due now. When to come again for what is due later; `None`: when something happens.
    fn due(&mut self, events: &ActiveEventLoop) -> Result<Option<Instant>> {
        let now = Instant::now();
        if self.settle_at.is_some_and(|at| now >= at) {
            self.settle_at = None;
            self.read_numbers(now, true);
            self.redraw();
        }
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.redraw();
        }
        if self.message.as_ref().is_some_and(|(.., until)| now >= *until) {
            self.message = None;
            self.redraw();
        }
        if self.look_at.is_some_and(|at| now >= at) {
            self.look(events)?;
        }
        let opens = self.first_at.is_some() && self.screen.is_none();
        let pictures = (opens || !self.paused && self.display.is_to_be_asked()).then_some(LOOK);
        self.look_at = pictures.or(self.listens().then_some(LISTEN)).map(|wait| now + wait);
        let message_ends = self.message.as_ref().map(|(.., until)| *until);
        Ok([self.settle_at, self.retry_at, self.look_at, message_ends].into_iter().flatten().min())
    }
}

fn whole(width: u32, height: u32) -> Rect {
    Rect { x: 0, y: 0, width, height }
}

/// `12, 30: 255 128 0`.
fn value_text(Pixel { before, x, y, .. }: Pixel, [r, g, b]: [u8; 3]) -> String {
    let which = if before { "before " } else { "" };
    format!("{which}{x}, {y}: {r} {g} {b}")
}

impl ApplicationHandler<Message> for App {
    /// The window appears with the first picture, not when the loop begins, unless its size was given.
    fn resumed(&mut self, events: &ActiveEventLoop) {
        if self.screen.is_none() {
            let looked = self.look(events);
            self.note(looked, events);
        }
    }

    fn user_event(&mut self, events: &ActiveEventLoop, message: Message) {
        if message.window == self.link.window() {
            let result = self.wake(message.wake, events);
            self.note(result, events);
        }
    }

    fn window_event(&mut self, events: &ActiveEventLoop, id: WindowId, event: WindowEvent) {
        if self.screen.as_ref().is_some_and(|screen| screen.window.id() == id) {
            let result = App::window_event(self, event, events);
            self.note(result, events);
        }
    }

    fn about_to_wait(&mut self, events: &ActiveEventLoop) {
        match self.due(events) {
            Ok(next) => events.set_control_flow(next.map_or(ControlFlow::Wait, ControlFlow::WaitUntil)),
            Err(error) => self.note(Err(error), events),
        }
        // A picture that nobody sees is not waited for: a run would not end before somebody looks.
        let waits = self.display.is_to_be_asked() || self.display.has_unseen() && self.can_be_seen();
        let over = self.has_ended() && !waits;
        if over && (self.options.close_at_end || self.screen.is_none()) {
            self.close(events, false);
        }
        self.tell_status();
    }

    fn exiting(&mut self, _: &ActiveEventLoop) {
        // The window must be gone before the loop is used again.
        self.screen = None;
        self.link.end();
        self.tell_status();
    }
}
